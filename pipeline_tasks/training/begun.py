"""What a training starts from, as its forecast has to know it: the backbone's name, and whether a stage trained it."""

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


class Begun(NamedTuple):
    """What a training starts from.

    Attributes:
        name: of the backbone.
        learned: a stage before has trained it, so that bfloat16 does not hold its weights.
    """

    name: str
    learned: bool = False


def begun_with(inputs: Inputs, params: OptimiserParams) -> Begun:
    """The model ``init`` and what that was made from, else the backbone of the parameters.

    Where a model's backbone is not known any more, it is taken to be that of the parameters.
    """
    known = backbone_of(inputs["init"].store, inputs["init"].manifest) if "init" in inputs else {}
    learned = "init" in inputs or bool(getattr(params, "start_from", ()))
    return Begun(known.get("name") or as_it_came(params).name, learned)


def kind_of_start(inputs: Inputs, params: OptimiserParams) -> str:
    """The ``model_type`` of what training starts from; empty where its config is not at hand."""
    if "init" in inputs:
        path = next((path for name, path in inputs["init"].files() if str(name) == "config.json"), None)
    else:
        start = params.start if isinstance(params, StartParams) else None
        try:
            path = ((start and start.folder) or use.folder(as_it_came(params).name)) / "config.json"
        except InputError:  # not fetched yet
            return ""
    return str(optional_object(path).get("model_type", "")) if path else ""


def as_it_came(params: OptimiserParams) -> Begun:
    """The backbone of the parameters."""
    return Begun(params.start.name if isinstance(params, StartParams) else backbone(params.size).name)
