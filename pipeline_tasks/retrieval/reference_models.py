"""The default reference models of each intent of the domain (DMRetriever, Table 5), best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.models.registry import ANY
from pipeline_tasks.models.use import models_needed, reference_models


def default_panels() -> dict[str, tuple[str, ...]]:
    """Intent of the domain -> the reference models of its queries, best first: its panel.

    Raises:
        InputError: the assignment of the settings is unknown, or does not know an intent.

    Source: DMRetriever, Table 5; see :func:`~pipeline_tasks.models.use.reference_models`.
    """
    return {intent: reference_models(intent) for intent in load_intents(domain_folder())}


def default_models() -> tuple[str, ...]:
    """The models of all default panels, once each."""
    return models_needed(default_panels())


def models_of(panels: Mapping[str, Sequence[str]]) -> list[str]:
    """The models of all panels, once each."""
    return list(dict.fromkeys(model for panel in panels.values() for model in panel))


def complete_panels(given: dict[str, Any]) -> dict[str, Any]:
    """Parameters with both ``models`` and ``judges``, where one is given: models alone are the panel of any intent."""
    models, panels = given.get("models"), given.get("judges")
    if models and not panels:
        return given | {"judges": {ANY: models}}
    if panels and not models:
        return given | {"models": tuple(models_of(panels))}
    return given


def default_best_models() -> tuple[str, ...]:
    """The best model of every intent, once each: negatives come from their rankings."""
    return tuple(dict.fromkeys(panel[0] for panel in default_panels().values()))


def first_of_panels(panels: Mapping[str, Sequence[str]]) -> list[str]:
    """The first of every panel, once each: negatives come from their rankings.

    Those of the default panels come first and in their order, so that a version that is there is found again.
    """
    first = {panel[0] for panel in panels.values() if panel}
    usual = [model for model in default_best_models() if model in first]
    return usual + sorted(first.difference(usual))
