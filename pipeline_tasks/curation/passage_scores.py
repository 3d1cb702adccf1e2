"""What a causal model is asked of a query's passages, wherever it runs, and the order that both its scores give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.arrays import inverse
from pipeline_tasks.core.run import Run
from pipeline_tasks.curation import relevance_prompts as prompts
from pipeline_tasks.curation.compared_passages import Compared
from pipeline_tasks.retrieval.fusion import USUAL_K, fuse


@dataclass(frozen=True)
class ScoringPrompts:
    """What follows the examples, of all passages of all queries, one query after the other.

    Attributes:
        before_queries: what each query follows.
        queries: each query, as it stands behind that.
        before_grades: what each grade follows.
    """

    before_queries: list[str]
    queries: list[str]
    before_grades: list[str]

    @classmethod
    def of(cls, compared: Compared, passage_chars: int) -> ScoringPrompts:
        """With the first ``passage_chars`` characters of each passage."""
        of = [query for query, ids in zip(compared.queries.to_pylist(), compared.ids, strict=True) for _ in ids]
        shown = [" ".join(text[:passage_chars].split()) for text in compared.passages["text"].to_pylist()]
        tasks, queries = ([" ".join((query[name] or "").split()) for query in of] for name in ("instruction", "query"))
        return cls(
            list(map(prompts.before_query, shown, tasks)),
            [f" {query}" for query in queries],
            list(map(prompts.before_grade, shown, tasks, queries)),
        )

    def __len__(self) -> int:
        return len(self.queries)


@dataclass(frozen=True)
class Scores:
    """Of all passages of all queries, one query after the other.

    Attributes:
        likelihoods: log P(query | passage, task).
        relevances: expected grades.

    Shapes: each [n], float32.
    """

    likelihoods: np.ndarray
    relevances: np.ndarray


def expected_grades(log_probs: np.ndarray) -> np.ndarray:
    """The expected grade under log-probabilities of the grades. Shapes: [n, grades]; returns [n], float32."""
    return np.exp(log_probs) @ np.arange(len(prompts.GRADES), dtype=np.float32)


def ordered_by_both(compared: Compared, scores: Scores, k: int, run: Run) -> pa.Table:
    """Rows of ``RELABELLED``: each query's passages by both scores, their ranks fused with ``k``."""
    best, ranks = [], np.empty((2, len(compared.passages)), np.int32)
    for mine in compared.slices():
        order, ranks[:, mine] = fused_order([scores.likelihoods[mine], scores.relevances[mine]], k)
        best.append(order)
    found = {
        "likelihoods": pa.array(scores.likelihoods),
        "relevances": pa.array(scores.relevances, pa.float32()),
        "likelihood_ranks": pa.array(ranks[0]),
        "relevance_ranks": pa.array(ranks[1]),
    }
    return compared.ordered(best, found, run)


def fused_order(scores: Sequence[np.ndarray], k: int = USUAL_K) -> tuple[np.ndarray, np.ndarray]:
    """Places of one query's passages, best first by the reciprocal ranks of all scores, and the ranks by each score.

    Of equal sums the one that came first wins, and so it is within one score: the nearest passage.

    Shapes:
        scores: each [n]; returns places [n] and ranks [scores, n], 1-based, of the passages as they came.
    """
    orders = [np.argsort(-one, kind="stable") for one in scores]
    ranks = np.empty((len(scores), len(scores[0])), np.int32)
    for number, order in enumerate(orders):
        ranks[number] = ranks_of(order)
    best, _ = fuse([order[None, :] for order in orders], len(scores[0]), k)
    return best[0], ranks


def ranks_of(order: np.ndarray) -> np.ndarray:
    """The 1-based rank of each place in an order. Shapes: [n]; returns [n], int32."""
    return inverse(order) + np.int32(1)
