"""The model that a training starts from, for its forecast: its name, and whether an earlier stage trained it."""

from __future__ import annotations

from typing import NamedTuple

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.encoders.model_files import optional_object
from pipeline_tasks.models import use
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.start import StartParams
from pipeline_tasks.training.common import backbone_of
from pipeline_tasks.training.params import OptimiserParams


class StartingModel(NamedTuple):
    """What a training starts from.

    Attributes:
        name: of the backbone.
        trained: a stage before has trained it, so that bfloat16 does not hold its weights.
    """

    name: str
    trained: bool = False


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
    """The backbone of the parameters."""
    return StartingModel(params.start.name if isinstance(params, StartParams) else backbone(params.size).name)
