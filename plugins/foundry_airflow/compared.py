"""What trained models are compared with, beside what a form names: what each of them was before it was trained."""

from __future__ import annotations

import logging
from typing import Any

from foundry_airflow.backends import EMPTY
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parameters import default_of
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.models.registry import get
from pipeline_tasks.training.model.starting_model import backbone_of

log = logging.getLogger(__name__)
NOT_SCORED = "what %s began as (%s) is not among `foundry models`, and is not scored: name it as `backbone`"


def compared(store: Store, models: list[list[str]], backbone: Any = "", systems: Any = "") -> dict[str, Any]:
    """The parameters ``size``, ``backbone`` and ``systems`` of ``evaluate_retriever``.

    The last model's start is the system ``<size>/untrained``, those of others are systems by their own names. Of a
    start that was a folder the store knows no path. No value is None, which Airflow hands on to no other task.

    Args:
        store: where the models are.
        models: of each one the versions that it was trained through, the first one first.
        backbone: the start, where a form names it.
        systems: of the form.
    """
    if backbone:
        return {"size": _size(models[-1][-1]), "backbone": backbone, "systems": systems or ""}
    starts: dict[str, str] = {}
    for *_, last in models:
        name = backbone_of(store, load_manifest(store, Ref.parse(last))).get("name", "")
        try:
            starts[_size(last)] = get(name).name
        except InputError:
            log.warning(NOT_SCORED, last, name or "unknown")
    *others, (size, start) = starts.items() or [(EMPTY, "")]
    if further := [name for _, name in others if name != start]:
        systems = list(dict.fromkeys([*(systems or default_of(get_step("evaluate_retriever"), "systems")), *further]))
    return {"size": size, "backbone": start, "systems": systems or ""}


def _size(model: str) -> str:
    return Ref.parse(model).dataset.split("/")[1]
