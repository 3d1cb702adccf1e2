"""A sequence of short arrays in two long ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ragged:
    """Arrays one after another.

    Shapes:
        offsets: [n + 1], where each begins and the last ends; values: [offsets[n]].
    """

    offsets: np.ndarray
    values: np.ndarray

    @classmethod
    def joined(cls, lengths: Iterable[np.ndarray], values: Iterable[np.ndarray], dtype: type) -> Ragged:
        """From the lengths of the arrays and what they hold, both in pieces."""
        sizes = [np.zeros(1, np.int64), *lengths]
        return cls(np.concatenate(sizes).cumsum(), np.concatenate([np.zeros(0, dtype), *values]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Of each array, [n]."""
        return np.diff(self.offsets)
