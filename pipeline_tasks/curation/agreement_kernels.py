"""Compiled reading of rankings into what models say. Imported inside functions only."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import compiled
from pipeline_tasks.curation.agreement import TopPassages
from pipeline_tasks.curation.id_kernels import hash_bytes
from pipeline_tasks.curation.negative_rules import Ranked


@compiled
def read_votes(
    rows: np.ndarray,
    seats: np.ndarray,
    ranked: Ranked,
    positive_scores: np.ndarray,
    own: np.ndarray,
    own_wanted: np.ndarray,
    heard: TopPassages,
) -> None:
    """Write one model's rankings into ``heard``.

    Args:
        rows: row of ``heard`` of each ranking, int32; negative where nobody asks.
        seats: place of the model among those that judge each row, int32; negative where it is none of them.
        ranked: the rankings.
        positive_scores: score of each ranking's own generated positive, float32; NaN where unknown.
        own: hash of each row's own positive, uint64.
        own_wanted: whether its rank is looked for below the top as well, bool.
        heard: written to.
    """
    most = heard.hashes.shape[2]
    for at in range(rows.size):
        row = rows[at]
        if row < 0 or seats[row] < 0:
            continue
        seat, first, last = seats[row], ranked.starts[at], ranked.starts[at + 1]
        heard.seen[row, seat] = True
        heard.n[row, seat] = min(last - first, most)
        heard.own_score[row, seat] = positive_scores[at]
        looked_for = own_wanted[row]
        for i in range(first, last):
            rank = i - first
            if rank >= most and not looked_for:
                break
            h = hash_bytes(ranked.ids.data, ranked.ids.offsets[i], ranked.ids.offsets[i + 1])
            if rank < most:
                heard.hashes[row, seat, rank], heard.scores[row, seat, rank] = h, ranked.scores[i]
            if looked_for and h == own[row]:
                heard.own_rank[row, seat], heard.own_score[row, seat] = rank + 1, ranked.scores[i]
                looked_for = False
