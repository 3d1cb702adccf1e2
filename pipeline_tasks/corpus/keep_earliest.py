"""Who stays among near-duplicates: each row in turn, unless it is like an earlier one that stayed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from pipeline_tasks.core.progress import Meter
from pipeline_tasks.corpus.all_pairs import AllPairs

_BLOCK = 2048
UNKNOWN = -1

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def keep_earliest(
    pairs: AllPairs,
    representatives: np.ndarray,
    cosines: np.ndarray,
    progress: Callable[[int, str], AbstractContextManager[Meter]],
    block: int = _BLOCK,
) -> tuple[np.ndarray, np.ndarray]:
    """Every row's representative: itself if it stays, else the earlier row that stayed and is most like it.

    Rows are compared with rows that stayed, never through a third one: similarity is not transitive. Of equal cosines
    the earlier row is named.

    What is known of some rows saves work and changes nothing. ``representatives`` is the answer for other rows of the
    same order, of which some are now gone and some are new. Open at first are the new rows and those whose
    representative is gone. They are decided against all that stand; a row that newly stands opens the later rows like
    it, one that falls opens those it stood for, until nothing is open. The first open row always gets its final answer,
    because nothing before it is open.

    Args:
        pairs: the vectors.
        representatives: index of each row's representative, :data:`UNKNOWN` where it is not known.
        cosines: cosine to it.
        progress: a meter for so many rows.
        block: rows decided at once; has no say in the result.

    Shapes: representatives [n] int64 and cosines [n] float64, as is what is returned.
    """
    representatives, cosines = representatives.copy(), cosines.copy()
    everyone = np.arange(len(representatives))
    opened = np.flatnonzero(representatives == UNKNOWN)
    stood = np.zeros(len(opened), bool)
    while opened.size:
        representatives[opened] = UNKNOWN
        with progress(len(opened), "passages") as meter:
            for at in range(0, len(opened), block):
                some = opened[at : at + block]
                standing = everyone[representatives == everyone]
                representatives[some], cosines[some] = _decide(pairs, some, standing)
                meter.advance(len(some))
        stands = representatives[opened] == opened
        settled = np.setdiff1d(everyone, opened, assume_unique=True)
        fallen = settled[np.isin(representatives[settled], opened[stood & ~stands])]
        opened = np.union1d(fallen, pairs.above(settled, opened[stands & ~stood])[0])
        stood = representatives[opened] == opened
    return representatives, cosines


def _decide(pairs: AllPairs, rows: np.ndarray, standing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Representatives of ``rows`` and the cosines to them, given the other rows that stand."""
    with_standing = pairs.above(rows, standing)
    free = np.setdiff1d(rows, with_standing[0], assume_unique=False)
    with_free = pairs.above(rows, free)
    stands = _standing_of(free, with_free)
    valid = np.isin(with_free[1], stands)
    i, j, cosine = (np.concatenate([a, b[valid]]) for a, b in zip(with_standing, with_free, strict=True))
    order = np.lexsort((j, -cosine, i))
    found, first = np.unique(i[order], return_index=True)
    at = np.searchsorted(rows, found)
    best, best_cosine = rows.copy(), np.ones(len(rows))
    best[at], best_cosine[at] = j[order][first], cosine[order][first]
    return best, best_cosine


def _standing_of(free: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Those of ``free`` that are not like an earlier one of them that stands."""
    stands = np.ones(len(free), bool)
    inner = np.isin(pairs[0], free)
    rows, columns = (np.searchsorted(free, side[inner]) for side in pairs[:2])
    order = np.argsort(rows, kind="stable")
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if stands[column]:
            stands[row] = False
    return free[stands]
