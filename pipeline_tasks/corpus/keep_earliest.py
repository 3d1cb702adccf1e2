"""Who stays among near-duplicates: each row in turn, unless it is like an earlier one that stayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from pipeline_tasks.corpus.all_pairs import AllPairs, Pairs

_BLOCK = 2048
UNKNOWN = -1


class Comparison(Protocol):
    """Rows, by their place in the order of all, and which of them are alike; where they are is its own affair."""

    def batches(self, rows: np.ndarray) -> Iterable[np.ndarray]:
        """``rows`` in their order, cut into batches; the next one is asked for when the last one is decided."""

    def decide(self, rows: np.ndarray, standing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Representatives of a batch and the cosines to them, where ``standing`` are the other rows that stand."""

    def alike(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Those of ``rows`` that are like an earlier one of ``columns``."""


def keep_earliest(
    compare: Comparison, representatives: np.ndarray, cosines: np.ndarray
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
        compare: the rows; its batches have no say in the result.
        representatives: index of each row's representative, :data:`UNKNOWN` where it is not known.
        cosines: cosine to it.

    Shapes: representatives [n] int64 and cosines [n] float64, as is what is returned.
    """
    representatives, cosines = representatives.copy(), cosines.copy()
    everyone = np.arange(len(representatives))
    opened = np.flatnonzero(representatives == UNKNOWN)
    stood = np.zeros(len(opened), bool)
    while opened.size:
        representatives[opened] = UNKNOWN
        for some in compare.batches(opened):
            standing = np.flatnonzero(representatives == everyone)
            representatives[some], cosines[some] = compare.decide(some, standing)
        stands = representatives[opened] == opened
        settled = np.setdiff1d(everyone, opened, assume_unique=True)
        fallen = settled[np.isin(representatives[settled], opened[stood & ~stands])]
        opened = np.union1d(fallen, compare.alike(settled, opened[stands & ~stood]))
        stood = representatives[opened] == opened
    return representatives, cosines


def settle(
    pairs: AllPairs, alike: np.ndarray, block: int = _BLOCK, advance: Callable[[int], None] = lambda n: None
) -> tuple[np.ndarray, np.ndarray]:
    """The same for rows in memory: each row's representative among them, and the cosine to it.

    Args:
        pairs: the vectors.
        alike: rows that are like one elsewhere that stands, and so do not; one that is like none of these rows has
            :data:`UNKNOWN`.
        block: rows compared at once; has no say in the result.
        advance: told how many rows are done.

    Shapes: alike [n] bool; returns [n] int64 and [n] float64.
    """
    representatives, cosines = np.full(len(alike), UNKNOWN), np.zeros(len(alike))
    stands = np.zeros(len(alike), bool)
    for at in range(0, len(alike), block):
        rows = np.arange(at, min(at + block, len(alike)))
        with_standing = pairs.above(rows, np.flatnonzero(stands[:at]))
        free = np.setdiff1d(rows[~alike[rows]], with_standing[0])
        with_free = pairs.above(rows, free)
        stays = _standing_of(free, with_free)
        valid = np.isin(with_free[1], stays)
        stands[stays], representatives[stays], cosines[stays] = True, stays, 1
        i, j, cosine = (np.concatenate([a, b[valid]]) for a, b in zip(with_standing, with_free, strict=True))
        found, representatives_of, cosines_of = most_alike(i, j, cosine)
        representatives[found], cosines[found] = representatives_of, cosines_of
        advance(len(rows))
    return representatives, cosines


def most_alike(rows: np.ndarray, columns: np.ndarray, cosines: np.ndarray) -> Pairs:
    """Of each row's pairs the one with the largest cosine; of equal cosines the earliest column."""
    order = np.lexsort((columns, -cosines, rows))
    found, first = np.unique(rows[order], return_index=True)
    return found, columns[order][first], cosines[order][first]


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
