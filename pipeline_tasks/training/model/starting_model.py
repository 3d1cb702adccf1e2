"""The model that a training starts from: its name, whether an earlier stage trained it, what its chain began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.encoders.model_files import optional_object
from pipeline_tasks.models import use
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.start import StartParams
from pipeline_tasks.training.params import OptimiserParams


class StartingModel(NamedTuple):
    """What a training starts from.

    Attributes:
        name: of the backbone.
        trained: a stage before has trained it, so that bfloat16 does not hold its weights.
    """

    name: str
    trained: bool = False

    @property
    def in_float32(self) -> bool:
        """Whether bfloat16 would round its weights: they have learned, or were read back from fewer bits."""
        offline = get(self.name).offline if settings().profile == "offline" else None
        return self.trained or bool(offline and offline.converter)


def starting_model(inputs: Inputs, params: OptimiserParams) -> StartingModel:
    """The model ``init`` and what that was made from, else the backbone of the parameters.

    Where a model's backbone is not known any more, it is taken to be that of the parameters.
    """
    known = backbone_of(inputs["init"].store, inputs["init"].manifest) if "init" in inputs else {}
    trained = "init" in inputs or bool(getattr(params, "start_from", ()))
    return StartingModel(known.get("name") or untrained_model(params).name, trained)


def model_type_of_start(inputs: Inputs, params: OptimiserParams) -> str:
    """The ``model_type`` of what training starts from; empty where its config is not at hand."""
    if "init" in inputs:
        path = next((path for name, path in inputs["init"].files() if str(name) == "config.json"), None)
    else:
        start = params.start if isinstance(params, StartParams) else None
        try:
            path = ((start and start.folder) or use.folder(untrained_model(params).name)) / "config.json"
        except InputError:  # not fetched yet
            return ""
    return str(optional_object(path).get("model_type", "")) if path else ""


def untrained_model(params: OptimiserParams) -> StartingModel:
    """The backbone of the parameters, or their size's."""
    if isinstance(params, StartParams) and params.has_start:
        return StartingModel(params.start.name)
    return StartingModel(backbone(params.size).name)


def backbone_of(store: Store, model: Manifest) -> dict[str, Any]:
    """The identity of what the first of a model's chain started from; none where that is not known any more.

    A mean is of models that started from the same.
    """
    while before := model.inputs.get("init") or model.inputs.get("models"):
        try:
            model = load_manifest(store, Ref.parse(before[0]))
        except InputError:  # of a version that is gone
            return {}
    return model.params.get("backbone") or {}


def weights_identity(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Which weights the identity of a start means, whatever libraries read them."""
    return {name: identity.get(name) for name in ("name", "sha256", "hub")}
