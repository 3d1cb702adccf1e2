"""All pairs of unit vectors above a cosine, exactly: a few coordinates screen every pair, all of them decide the rest.

Turn the axes so that the first ``r`` hold most of what tells the vectors apart, and write a = (a', a''). Then
a.b = a'.b' + a''.b'' <= a'.b' + |a''| |b''| (Cauchy-Schwarz), which is the inner product of the *short forms*
(a', |a''|) and (b', |b''|): one matrix product of ``r + 1`` columns bounds every cosine from above. Pairs whose bound
stays below the threshold are done. The others get their cosine from the whole vectors in float64, one pair at a time in
a fixed order of addition, so that neither the axes, nor the tiles, nor the threads have a say in any result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.side_by_side import in_order, numpy_threads

_AXES_SAMPLE, _WIDTH_SAMPLE = 8192, 1024
_WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_TILE_ROWS, _TILE_COLUMNS = 512, 2048
_CHECK_PAIRS = 4096
_CHECK_COST = 40_000
"""Columns of the product that cost as much as one pair that has to be checked."""
_ROUNDING = 2.0**-21
"""Eight times the relative error of one float32 addition: covers the sums of turning, squaring and multiplying."""

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Row, column and cosine of each."""


class AllPairs:
    """Unit vectors among which pairs above ``threshold`` can be found; a pair is (later row, earlier column).

    Attributes:
        short: short forms of the vectors.
        screened: pairs bounded so far.
        checked: pairs whose cosine was computed so far.

    Shapes:
        vectors [n, d], short [n, r + 1]; both float32.
    """

    def __init__(self, vectors: np.ndarray, threshold: float) -> None:
        self.vectors, self.threshold = vectors, threshold
        self.short = short_forms(vectors, threshold)
        self.screened = self.checked = 0

    def above(self, rows: np.ndarray, columns: np.ndarray) -> Pairs:
        """All pairs of ``rows`` with an earlier one of ``columns`` whose cosine is above the threshold.

        Memory follows the number of pairs found, not of those compared.

        Shapes:
            rows [p] and columns [q], indices in rising order; returns three arrays [k]: row, column, cosine (float64).
        """
        columns = columns[: np.searchsorted(columns, rows[-1])] if len(rows) else columns[:0]
        tiles = (rows[at : at + _TILE_ROWS] for at in range(0, len(rows), _TILE_ROWS))
        lefts = [(tile, self.short[tile]) for tile in tiles]
        rights = [columns[at : at + _TILE_COLUMNS] for at in range(0, len(columns), _TILE_COLUMNS)]
        threads = settings().threads
        found = [_NONE]
        with numpy_threads(threads) as pool:
            for some, screened, checked in in_order(pool, 2 * threads, partial(self._against, lefts), rights):
                found += some
                self.screened += screened
                self.checked += checked
        return tuple(map(np.concatenate, zip(*found, strict=True)))  # type: ignore[return-value]

    def _against(
        self, lefts: Sequence[tuple[np.ndarray, np.ndarray]], right: np.ndarray
    ) -> tuple[list[Pairs], int, int]:
        """Pairs above the threshold in a column of tiles; how many were screened, and checked."""
        turned = np.ascontiguousarray(self.short[right].T)
        space = np.empty(_TILE_ROWS * len(right), np.float32)
        found, screened, checked = [], 0, 0
        for left, short in lefts:
            if left[-1] <= right[0]:
                continue
            bound = np.matmul(short, turned, out=space[: left.size * right.size].reshape(left.size, -1))
            screened += bound.size
            i, j = np.divmod(np.flatnonzero(bound > self.threshold), right.size)
            i, j = left[i], right[j]
            earlier = j < i
            checked += int(np.count_nonzero(earlier))
            found.append(self._check(i[earlier], j[earlier]))
        return found, screened, checked

    def _check(self, rows: np.ndarray, columns: np.ndarray) -> Pairs:
        cosines = np.empty(len(rows))
        for at in range(0, len(rows), _CHECK_PAIRS):
            some = slice(at, at + _CHECK_PAIRS)
            cosines[some] = cosine_of(self.vectors[rows[some]], self.vectors[columns[some]])
        kept = cosines > self.threshold
        return rows[kept], columns[kept], cosines[kept]


_NONE = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def cosine_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosines of unit vectors row by row, at most 1; a row's value does not depend on the rows beside it.

    Shapes: a, b [k, d]; returns [k] float64.
    """
    return np.minimum((a.astype(np.float64) * b).sum(axis=1), 1.0)


def short_forms(vectors: np.ndarray, threshold: float) -> np.ndarray:
    """Vectors of few coordinates whose inner products are never below those of ``vectors``, rounding included.

    The axes are the principal components of an even sample. The width is the one at which screening and checking
    together cost least on a second sample, to which the axes were not fitted.

    Shapes: vectors [n, d] of length 1; returns [n, r + 1] with r <= d, float32.
    """
    n, d = vectors.shape
    probes = np.unique(np.linspace(0, max(0, n - 1), _WIDTH_SAMPLE, dtype=np.int64)) if n else np.empty(0, np.int64)
    others = np.setdiff1d(np.arange(n), probes) if n > _WIDTH_SAMPLE else probes
    axes = _principal_axes(vectors[others[:: -(-max(1, len(others)) // _AXES_SAMPLE)]])
    width = _cheapest_width(vectors[probes] @ axes, threshold)
    axes = np.ascontiguousarray(axes[:, :width])
    short = np.empty((n, width + 1), np.float32)
    for at in range(0, n, _TILE_COLUMNS):
        some = slice(at, at + _TILE_COLUMNS)
        short[some, :width] = vectors[some] @ axes
        short[some, width] = _rest(short[some, :width], d)
    return short


def _rest(first: np.ndarray, d: int) -> np.ndarray:
    """Length of what the first coordinates leave of unit vectors, rounded up."""
    return np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", first, first), 0) + d * _ROUNDING)


def _principal_axes(sample: np.ndarray) -> np.ndarray:
    """All axes of the space, those along which the sample varies most first: distances between vectors lie in them."""
    wide = sample.astype(np.float64) - (sample.mean(axis=0) if len(sample) else 0)
    return np.linalg.eigh(wide.T @ wide)[1][:, ::-1].astype(np.float32)


def _cheapest_width(turned: np.ndarray, threshold: float) -> int:
    """Number of coordinates at which screening all pairs of the sample and checking the survivors costs least."""
    d = turned.shape[1]
    product = np.zeros((len(turned), len(turned)), np.float32)
    least, best, done = np.inf, d, 0
    for width in [*(w for w in _WIDTHS if w < d), d]:
        if width >= least:
            break
        fresh = turned[:, done:width]
        product += fresh @ fresh.T
        rest = _rest(turned[:, :width], d)
        survivors = np.count_nonzero(product + np.outer(rest, rest) > threshold) - len(turned)
        cost = width + _CHECK_COST * survivors / max(1, product.size)
        least, best, done = min((cost, width), (least, best)) + (width,)
    return best
