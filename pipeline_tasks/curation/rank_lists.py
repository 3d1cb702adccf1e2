"""Short lists of a long ranking: its ranks, or its scores, are cut into intervals, and each gives one passage.

How long an interval is, before rounding, of m over n ranks (or over the range of the scores):

| strategy | the i-th interval | m = 4, n = 20 |
|---|---|---|
| ``uniform`` | as long as any other | [0, 5) [5, 10) [10, 15) [15, 20) |
| ``fine_to_coarse`` | i times as long as the first | [0, 2) [2, 6) [6, 12) [12, 20) |
| ``doubling`` | twice as long as the one before | [0, 1) [1, 4) [4, 9) [9, 20) |

Source: BMEmbed 3.2. The example there is ``fine_to_coarse``; appendix D.2 has ``doubling``, after a first interval of
three ranks.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from pipeline_tasks.core.ids import unit_hash

Strategy = Literal["uniform", "fine_to_coarse", "doubling"]
By = Literal["rank", "score"]


def interval_ends(scores: np.ndarray, m: int, strategy: Strategy, by: By = "rank", first: int = 0) -> list[int]:
    """Where each of ``m`` intervals of a ranking ends; the first begins at 0, each other one where the last ended.

    By rank every interval has a rank of its own, so that a ranking of fewer than ``m`` has as many intervals as
    passages. By score an interval may be empty: its end is that of the one before.

    Args:
        scores: of the ranking, falling.
        m: how many.
        strategy: how they grow.
        by: what is cut: the ranks, or the range from the highest score to the lowest.
        first: ranks of the first interval, whatever the strategy says of it, as far as each other one then has a rank;
            0: what the strategy says.

    Shapes: scores [n].
    """
    n = len(scores)
    if first and m > 1 and n:
        head = min(first, max(1, n - (m - 1)))
        return [head, *(head + end for end in interval_ends(scores[head:], m - 1, strategy, by))]
    return _by_score(scores, _grown(m, strategy)) if by == "score" else _by_rank(n, _grown(min(m, n), strategy))


def _by_rank(n: int, grown: list[int]) -> list[int]:
    ends = [0]
    for at, length in enumerate(grown, 1):
        rounded = (2 * n * length + grown[-1]) // (2 * grown[-1])
        ends.append(min(max(rounded, ends[-1] + 1), n - (len(grown) - at)))
    return ends[1:]


def _by_score(scores: np.ndarray, grown: list[int]) -> list[int]:
    if not len(scores):
        return [0] * len(grown)
    falling = scores.astype(np.float64)
    least = falling[0] - np.array(grown) / grown[-1] * (falling[0] - falling[-1])
    return [*np.searchsorted(-falling, -least, side="right")[:-1].tolist(), len(scores)]


def _grown(m: int, strategy: Strategy) -> list[int]:
    """How far the first i of ``m`` intervals reach, in lengths of the first."""
    return [{"uniform": i, "fine_to_coarse": i * (i + 1) // 2, "doubling": 2**i - 1}[strategy] for i in range(1, m + 1)]


def sample(query_id: str, ends: list[int], n_lists: int) -> list[list[int]]:
    """Lists of one rank, 0-based, from each interval that is not empty; drawn by the query's id alone."""
    intervals = [(begin, end) for begin, end in zip([0, *ends], ends, strict=False) if begin < end]
    return [
        [
            begin + int(unit_hash("rank_lists", query_id, number, place) * (end - begin))
            for place, (begin, end) in enumerate(intervals)
        ]
        for number in range(n_lists)
    ]
