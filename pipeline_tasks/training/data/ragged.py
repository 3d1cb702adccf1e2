"""A sequence of short arrays in two long ones."""

from __future__ import annotations

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
    def of(cls, lengths: np.ndarray, values: np.ndarray) -> Ragged:
        """From the length of each array, [n], and what all hold; empty ones alone take no memory."""
        if not len(values):
            return cls(np.broadcast_to(np.zeros(1, np.int64), len(lengths) + 1), values)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(offsets, values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        return self.values[self.offsets[number] : self.offsets[number + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Of each array, [n]."""
        return np.diff(self.offsets)
