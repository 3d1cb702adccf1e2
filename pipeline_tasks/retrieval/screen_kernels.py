"""Compiled loops that make vectors ready for the screen of exact search. Imported inside functions only."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import in_any_order

_NOT_SIGN = np.int32(2**31 - 1)
_UPPER = np.int32(-(2**16))
_BELOW_HALF = np.int32(2**15 - 1)


@in_any_order
def measured(vectors: np.ndarray, bits: np.ndarray, lengths: np.ndarray) -> np.int32:
    """Write the norm of each vector; returns the bits of the largest number, above which are infinity's and NaN's.

    Shapes:
        vectors [n, d], float32, and the same as int32; lengths [n], float32, written to.
    """
    top = np.int32(0)
    for row in range(vectors.shape[0]):
        total = np.float32(0)
        for i in range(vectors.shape[1]):
            total += vectors[row, i] * vectors[row, i]
            top = max(top, np.int32(bits[row, i] & _NOT_SIGN))
        lengths[row] = np.sqrt(total)
    return top


@in_any_order
def rounded(
    vectors: np.ndarray, bits: np.ndarray, lengths: np.ndarray, found: np.ndarray, moved: np.ndarray
) -> np.int32:
    """Like :func:`measured`; moreover write the vectors in bfloat16, and the norm of what rounding took away.

    Rounded is to the nearest, of two equally near to the even one, as processors do.

    Shapes:
        found [n, d], int16, the bits of bfloat16, and moved [n], float32: written to.
    """
    width = vectors.shape[1]
    kept, top = np.empty(width, np.int32), np.int32(0)
    whole = kept.view(np.float32)
    for row in range(vectors.shape[0]):
        for i in range(width):
            even = np.int32((bits[row, i] >> np.int32(16)) & np.int32(1))
            near = np.int32(bits[row, i] + _BELOW_HALF + even)
            kept[i] = near & _UPPER
            found[row, i] = np.int16(near >> np.int32(16))
        lost = np.float32(0)
        for i in range(width):
            apart = vectors[row, i] - whole[i]
            lost += apart * apart
        moved[row] = np.sqrt(lost)
        one = slice(row, row + 1)
        top = max(top, measured(vectors[one], bits[one], lengths[one]))
    return top
