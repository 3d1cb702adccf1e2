"""Which encoder: the parameter of all steps that make vectors or read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.core.versions import Version
from pipeline_tasks.models.use import REFERENCE_MODELS, identity, licences


class EmbedParams(StepParams):
    """Which encoder."""

    model: str = Field(REFERENCE_MODELS[0], description="encoder; `foundry models` lists them")

    def identity(self) -> dict[str, Any]:
        """The model's name and what its weights are."""
        return super().identity() | {"weights": identity(self.model)}

    def check_weights(self, *versions: Version) -> None:
        """Make sure that vectors which are to be compared are of the weights that run here.

        Raises:
            InputError: one says that it is of others.
        """
        check_weights(self.model, *versions)

    def licences(self) -> dict[str, str]:
        """The licence of the model's weights."""
        return licences(self.model)


def check_weights(model: str, *versions: Version) -> None:
    """Make sure that vectors of ``model`` which are to be compared are of the weights that run here.

    Raises:
        InputError: one says that it is of others.
    """
    here = identity(model)
    for version in versions:
        if version.manifest.params.get("weights", here) != here:
            raise InputError(
                f"{version.manifest.ref} has vectors of other weights of {model} than run here: encode it anew"
            )


def is_asked(of_each: pa.ChunkedArray, intents: Sequence[str]) -> np.ndarray:
    """Which queries, whose intents these are, have a vector where ``intents`` are asked: all where none is named."""
    if not intents:
        return np.ones(len(of_each), bool)
    return pc.is_in(of_each, value_set=pa.array(intents, pa.string())).to_numpy()
