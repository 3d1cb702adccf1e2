"""Which candidate may be a hard negative: the arrays that the compiled rule reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pipeline_tasks.core.arrays import offsets
from pipeline_tasks.curation.id_table import Strings

SKIPS = ("too_similar", "within_margin", "above_max_score", "known_positive", "duplicate_of_positive", "other_split")
"""Why a candidate is passed over, in the order in which it is asked."""

UNRANKED = -1
"""In ``Chosen.n``: no ranking of the query was seen, so it has neither no negative (0) nor some (more than 0)."""


class Rules(NamedTuple):
    """What a negative must meet, beside not being an answer.

    Attributes:
        alpha: its cosine is below that share of the positive's.
        absolute_margin: its cosine is at least that much below the positive's.
        max_score: highest cosine.
        min_rank, max_rank: ranks that are looked at.
    """

    alpha: np.float32
    absolute_margin: np.float32
    max_score: np.float32
    min_rank: int
    max_rank: int

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Rules:
        """The rules of these parameters; a highest cosine of 1 is no limit."""
        highest = np.float32(values["max_score"] if values["max_score"] < 1 else np.inf)
        floats = np.float32(values["alpha"]), np.float32(values["absolute_margin"]), highest
        return cls(*floats, values["min_rank"], values["max_rank"])


class Ranked(NamedTuple):
    """Rankings of one model: ids and scores of all candidates, best first, and where each query's begin."""

    ids: Strings
    scores: np.ndarray
    starts: np.ndarray


class MiningQueries(NamedTuple):
    """Queries that want negatives.

    Attributes:
        positive: number of the positive, int32; among positives alone where cosines are all that counts.
        positive_score: its cosine, float32; NaN where it is still to be found in the ranking.
        group: queries of the same text share one, int32.
        split, intent: int8.
    """

    positive: np.ndarray
    positive_score: np.ndarray
    group: np.ndarray
    split: np.ndarray
    intent: np.ndarray


class Low(NamedTuple):
    """Candidates of some rankings whose cosines are low enough, one ranking after another.

    Attributes:
        hashes: of their ids, uint64.
        scores: their cosines, float32.
        n: how many each ranking has, int32.
        cut: whether a query has more of them than it wanted, bool [q].
        skipped: what was passed over and why, int64 [intents, 6].
    """

    hashes: np.ndarray
    scores: np.ndarray
    n: np.ndarray
    cut: np.ndarray
    skipped: np.ndarray


class Candidates(NamedTuple):
    """Candidates of each query, best first, by number: those of query i from ``starts[i]`` on."""

    codes: np.ndarray
    scores: np.ndarray
    starts: np.ndarray


class KnownPositives(NamedTuple):
    """Passages: hash of the text and split of each; known positives of each group from ``starts`` on in ``codes``.

    The split of what is no passage is negative.
    """

    hashes: np.ndarray
    splits: np.ndarray
    starts: np.ndarray
    codes: np.ndarray


class Chosen(NamedTuple):
    """The result: numbers and cosines of the negatives in rank order, how many, and what was passed over and why.

    Shapes:
        codes [q, K], int32; scores [q, K], float32; n [q], int32; skipped [intents, 6], int64.
    """

    codes: np.ndarray
    scores: np.ndarray
    n: np.ndarray
    skipped: np.ndarray

    @classmethod
    def empty(cls, n_queries: int, n_negatives: int, n_intents: int) -> Chosen:
        """Nothing chosen yet."""
        shape = (n_queries, n_negatives)
        return cls(
            np.full(shape, -1, np.int32),
            np.full(shape, np.nan, np.float32),
            np.full(n_queries, UNRANKED, np.int32),
            np.zeros((n_intents, len(SKIPS)), np.int64),
        )


def groups(group: np.ndarray, codes: list[np.ndarray], n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Known positives by group: where those of each group begin, and their numbers.

    Args:
        group: of each row; negative where nobody asks for that group.
        codes: known positives of each row, any number of columns; negative where there is none.
        n_queries: groups are numbered below it.

    Shapes:
        group and each of codes [n], int32; returns starts [n_queries + 1], int64, and codes, int32.
    """
    flat, owner = np.concatenate(codes), np.tile(group, len(codes))
    there = (flat >= 0) & (owner >= 0)
    flat, owner = flat[there], owner[there]
    return offsets(np.bincount(owner, minlength=n_queries)), flat[np.argsort(owner, kind="stable")].astype(np.int32)
