"""A long array that comes in pieces."""

from __future__ import annotations

import numpy as np


class Growing:
    """One array of all pieces, in memory that grows in place: neither the pieces nor a copy lie beside it.

    Zeros before the first other value take no memory: of what no row has there is nothing but a length.

    Args:
        dtype: of its values.
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self._dtype = np.dtype(dtype)
        self._n_zeros, self._bytes = 0, bytearray()

    def add(self, piece: np.ndarray) -> None:
        """Put the values of ``piece`` behind those before."""
        if not self._bytes and not piece.any():
            self._n_zeros += piece.size
            return
        if self._n_zeros:
            self._bytes, self._n_zeros = bytearray(self._n_zeros * self._dtype.itemsize), 0
        self._bytes += piece.astype(self._dtype, copy=False).tobytes()

    def any(self) -> bool:
        """Whether there is a value that is not 0."""
        return bool(self._bytes)

    def array(self) -> np.ndarray:
        """All values, [n]; nothing can be added while somebody has them."""
        if self._bytes:
            return np.frombuffer(self._bytes, self._dtype)
        return np.broadcast_to(np.zeros(1, self._dtype), self._n_zeros)
