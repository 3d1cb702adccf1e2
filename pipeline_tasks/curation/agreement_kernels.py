"""Compiled reading of rankings into votes. Imported inside functions only."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import compiled
from pipeline_tasks.curation.agreement import Votes
from pipeline_tasks.curation.id_kernels import find
from pipeline_tasks.curation.id_table import IdTable
from pipeline_tasks.curation.negative_rules import Ranked


@compiled
def read_votes(
    rows: np.ndarray,
    seats: np.ndarray,
    ranked: Ranked,
    positive_scores: np.ndarray,
    own: np.ndarray,
    table: IdTable,
    votes: Votes,
) -> int:
    """Write one model's rankings into ``votes``.

    Args:
        rows: row of ``votes`` of each ranking, int32; negative where nobody asks.
        seats: place of the model among those that judge each row, int32; negative where it is none of them.
        ranked: the rankings.
        positive_scores: score of each ranking's own generated positive, float32; NaN where unknown.
        own: number of each row's own positive where its rank is wanted, else negative.
        table: numbers of all passages.
        votes: written to.

    Returns:
        Place in ``ranked.scores`` of a passage that is not in ``table``; -1 where all are.
    """
    most = votes.codes.shape[2]
    for at in range(rows.size):
        row = rows[at]
        if row < 0 or seats[row] < 0:
            continue
        seat, first, last = seats[row], ranked.starts[at], ranked.starts[at + 1]
        votes.seen[row, seat] = True
        votes.own_score[row, seat] = positive_scores[at]
        for i in range(first, last):
            rank = i - first
            if rank >= most and own[row] < 0:
                break
            code = find(ranked.ids, i, table)
            if code < 0:
                return i
            if rank < most:
                votes.codes[row, seat, rank], votes.scores[row, seat, rank] = code, ranked.scores[i]
            if code == own[row]:
                votes.own_rank[row, seat], votes.own_score[row, seat] = rank + 1, ranked.scores[i]
                if rank >= most:
                    break
    return -1
