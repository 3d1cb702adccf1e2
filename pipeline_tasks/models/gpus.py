"""GPUs as data: typed entries of ``data/gpus.toml``, and what of them a dry run is asked about."""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

from pydantic import Field, TypeAdapter

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.registry import DATA, Entry


class Gpu(Entry):
    """One kind of card."""

    bf16_tflops: float = Field(gt=0, description="10^12 multiplications and additions a second, dense bfloat16")
    fp32_tflops: float = Field(gt=0, description="the same in float32, outside the tensor cores")
    memory_gib: float = Field(gt=0)
    share_of_peak: float = Field(gt=0, le=1, description="what a training is taken to reach of these")


class Cards(NamedTuple):
    """So many cards of a kind."""

    name: str
    number: int

    @property
    def gpu(self) -> Gpu:
        """The kind."""
        return GPUS[self.name]

    def __str__(self) -> str:
        return f"{self.number} x {self.name}"


GPUS = TypeAdapter(dict[str, Gpu]).validate_python(tomllib.loads((DATA / "gpus.toml").read_text(encoding="utf-8")))


def cards(text: str) -> list[Cards]:
    """What ``H200`` or ``4xH200`` means; one card of every kind where the text is empty.

    Raises:
        InputError: no kind has that name, or there are to be no cards.
    """
    if not text:
        return [Cards(name, 1) for name in GPUS]
    found = re.fullmatch(r"(?:([1-9]\d*)x)?(.+)", text)
    if found is None or found[2] not in GPUS:
        raise InputError(f"{text!r} is no GPU that is known; name one of {', '.join(GPUS)}, or several: 4xH100")
    return [Cards(found[2], int(found[1] or 1))]
