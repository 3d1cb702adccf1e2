"""Rows of several sources in one training: how much of each is seen, and what each is to make small."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from pipeline_tasks.training.objectives import AnyObjective


class Source(BaseModel):
    """How the rows of one source take part.

    Attributes:
        weight: how often a row is seen in an epoch: with 0.5 every row in two epochs, with 0 none ever.
        objective: what training makes small on its rows; None: what it does elsewhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: float = Field(1.0, ge=0, allow_inf_nan=False)
    objective: AnyObjective | None = None

    def identity(self) -> dict[str, Any]:
        """Its part of a model's id."""
        return {"weight": self.weight, "objective": self.objective and self.objective.identity()}


def _read(given: Any) -> Any:
    found = json.loads(given or "{}") if isinstance(given, str) else given
    if not isinstance(found, dict):
        raise ValueError('a mixture is JSON such as {"dm": 1, "gd/squad": {"weight": 0.5, "objective": "info_nce"}}')
    return {name: {"weight": value} if isinstance(value, int | float) else value for name, value in found.items()}


Mixture = Annotated[dict[str, Source], BeforeValidator(_read), WithJsonSchema({"type": "string"}, mode="validation")]
"""Source -> how it takes part; empty: rows of all sources meet in the batches, as many as there are."""
