"""Who ranks for whom unless a step is told otherwise: the reference models of the domain's intents, best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.models.registry import ANY
from pipeline_tasks.models.use import models_needed, reference_models


def judges() -> dict[str, tuple[str, ...]]:
    """Intent of the domain -> the models that judge its queries, best first.

    Raises:
        InputError: the assignment of the settings is unknown, or does not know an intent.

    Source: DMRetriever, Table 5; see :func:`~pipeline_tasks.models.use.reference_models`.
    """
    return {intent: reference_models(intent) for intent in load_intents(domain_folder())}


def judging_models() -> tuple[str, ...]:
    """All of these models, once each."""
    return models_needed(judges())


def models_of(judges: Mapping[str, Sequence[str]]) -> list[str]:
    """All who judge any intent."""
    return list(dict.fromkeys(model for panel in judges.values() for model in panel))


def with_models_and_judges(given: dict[str, Any]) -> dict[str, Any]:
    """Parameters with both ``models`` and ``judges``, where one is given: models alone judge queries of any intent."""
    models, panels = given.get("models"), given.get("judges")
    if models and not panels:
        return given | {"judges": {ANY: models}}
    if panels and not models:
        return given | {"models": tuple(models_of(panels))}
    return given


def best_models() -> tuple[str, ...]:
    """The best model of every intent, once each: negatives come from their rankings."""
    return tuple(dict.fromkeys(panel[0] for panel in judges().values()))


def best_of(judges: Mapping[str, Sequence[str]]) -> list[str]:
    """The first of every panel, once each: negatives come from their rankings.

    Those of the default's judges come first and in its order, so that a version that is there is found again.
    """
    first = {panel[0] for panel in judges.values() if panel}
    usual = [model for model in best_models() if model in first]
    return usual + sorted(first.difference(usual))
