"""Ranking metrics as arithmetic on arrays: one row per query, one column per rank.

All functions take the relevance of what was ranked, best first, and return one value per query, so that
callers can average by intent or test differences. ``ranked_relevance`` gets from ids to such arrays.

Shapes:
    q queries, k ranks, m judged passages. Relevance 0 (or below) means not relevant or not judged. Rankings
    and judgements shorter than the longest are padded with 0.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline_tasks.core.errors import InputError


def ndcg_at_k(ranked: np.ndarray, judged: np.ndarray, k: int) -> np.ndarray:
    """DCG@k over the DCG@k of the best possible ranking; 0 for a query without relevant passages.

    DCG@k = sum over ranks i = 1..k of max(rel_i, 0) / log2(1 + i)

    Shapes:
        ranked: [q, any]; judged: [q, m], all judgements of the query in any order; returns [q] in [0, 1].

    Source:
        Järvelin and Kekäläinen 2002, "Cumulated gain-based evaluation of IR techniques", with the linear gain
        of trec_eval's ndcg_cut (not 2^rel - 1; the two agree on binary judgements).
    """
    _check(ranked, k)
    ideal = _dcg(-np.sort(-judged, axis=1), k)
    return np.divide(_dcg(ranked, k), ideal, out=np.zeros(len(ranked)), where=ideal > 0)


def mrr_at_k(ranked: np.ndarray, k: int) -> np.ndarray:
    """1 / rank of the first relevant passage among the first ``k``, 0 where there is none.

    Shapes:
        ranked: [q, any]; returns [q] in [0, 1].

    Source:
        Voorhees 1999, "The TREC-8 Question Answering Track Report"; trec_eval's recip_rank over the first k.
    """
    _check(ranked, k)
    hits = ranked[:, :k] > 0
    if not hits.shape[1]:
        return np.zeros(len(ranked))
    return np.where(hits.any(axis=1), 1.0 / (1 + hits.argmax(axis=1)), 0.0)


def recall_at_k(ranked: np.ndarray, judged: np.ndarray, k: int) -> np.ndarray:
    """Share of a query's relevant passages that are among the first ``k``; 0 where it has none.

    Shapes:
        ranked: [q, any]; judged: [q, m]; returns [q] in [0, 1].

    Source:
        trec_eval's recall.
    """
    _check(ranked, k)
    relevant = (judged > 0).sum(axis=1)
    found = (ranked[:, :k] > 0).sum(axis=1)
    return np.divide(found, relevant, out=np.zeros(len(ranked)), where=relevant > 0)


def order_by_score(ids: Sequence[str], scores: Sequence[float]) -> list[str]:
    """Ids by falling score, equal scores by falling id, as trec_eval does: input order never counts."""
    pairs = sorted(zip(scores, ids, strict=True), reverse=True)
    return [passage_id for _, passage_id in pairs]


def ranked_relevance(
    rankings: Sequence[Sequence[str]], judgements: Sequence[Mapping[str, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The arrays ``ranked`` and ``judged`` for rankings of ids and {passage_id: relevance} per query.

    Shapes:
        returns [q, longest ranking] and [q, most judgements].

    Raises:
        InputError: different numbers of rankings and judgements, or an id twice in a ranking.
    """
    if len(rankings) != len(judgements):
        raise InputError(
            f"{len(rankings)} rankings and {len(judgements)} sets of judgements: give one of each per query"
        )
    for row, ids in enumerate(rankings):
        if len(set(ids)) != len(ids):
            raise InputError(f"ranking {row} names a passage twice: drop duplicates before scoring")
    ranked = [[judged.get(i, 0) for i in ids] for ids, judged in zip(rankings, judgements, strict=True)]
    return _padded(ranked), _padded([list(judged.values()) for judged in judgements])


def _dcg(relevance: np.ndarray, k: int) -> np.ndarray:
    gains = np.maximum(relevance[:, :k], 0)
    return gains @ (1.0 / np.log2(np.arange(2, gains.shape[1] + 2)))


def _padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    table = np.zeros((len(rows), max(map(len, rows), default=0)))
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


def _check(ranked: np.ndarray, k: int) -> None:
    if k < 1:
        raise InputError(f"k is {k}: a cut-off is at least 1")
    if ranked.ndim != 2:
        raise InputError(f"rankings of shape {ranked.shape}: give one row per query, one column per rank")
