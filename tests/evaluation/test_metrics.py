"""The metrics against trec_eval (through pytrec_eval) and by hand."""

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.evaluation.metrics import (
    mrr_at_k,
    ndcg_at_k,
    order_by_score,
    ranked_relevance,
    recall_at_k,
)


def random_runs(n: int = 200) -> tuple[list[dict[str, float]], list[dict[str, int]]]:
    """Graded judgements, some of unranked passages, some zero, and scores with many ties."""
    rng = np.random.default_rng(0)
    runs, judgements = [], []
    for _ in range(n):
        ids = [f"p{i}" for i in rng.choice(60, size=rng.integers(1, 40), replace=False)]
        runs.append({passage_id: float(rng.integers(0, 8)) / 4 for passage_id in ids})
        judged = rng.choice(60, size=rng.integers(1, 12), replace=False)
        judgements.append({f"p{i}": int(rng.integers(0, 4)) for i in judged})
    return runs, judgements


@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_golden_against_trec_eval(k: int) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    runs, judgements = random_runs()
    measures = {f"ndcg_cut.{k}", f"recall.{k}", "recip_rank"}
    evaluator = pytrec_eval.RelevanceEvaluator({f"q{i}": j for i, j in enumerate(judgements)}, measures)
    theirs = evaluator.evaluate({f"q{i}": run for i, run in enumerate(runs)})
    rankings = [order_by_score(list(run), list(run.values())) for run in runs]
    ranked, judged = ranked_relevance(rankings, judgements)
    ours = {
        f"ndcg_cut_{k}": ndcg_at_k(ranked, judged, k),
        f"recall_{k}": recall_at_k(ranked, judged, k),
        "recip_rank": mrr_at_k(ranked, ranked.shape[1]),
    }
    for name, values in ours.items():
        expected = [theirs[f"q{i}"][name] for i in range(len(runs))]
        np.testing.assert_allclose(values, expected, atol=1e-9, err_msg=name)


def test_by_hand() -> None:
    ranked, judged = ranked_relevance([["a", "b", "c"], ["b", "a"]], [{"a": 1, "c": 2}, {"a": 1}])
    best = 2 + 1 / np.log2(3)
    np.testing.assert_allclose(ndcg_at_k(ranked, judged, 10), [(1 + 2 / np.log2(4)) / best, 1 / np.log2(3)])
    assert mrr_at_k(ranked, 10).tolist() == [1.0, 0.5]
    assert mrr_at_k(ranked, 1).tolist() == [1.0, 0.0]
    assert recall_at_k(ranked, judged, 2).tolist() == [0.5, 1.0]


def test_nothing_relevant_or_nothing_ranked_scores_zero() -> None:
    ranked, judged = ranked_relevance([["a"], []], [{"a": 0}, {"a": 1}])
    for values in (ndcg_at_k(ranked, judged, 10), mrr_at_k(ranked, 10), recall_at_k(ranked, judged, 10)):
        assert values.tolist() == [0.0, 0.0]
    nothing, judged = ranked_relevance([[]], [{"a": 1}])
    assert mrr_at_k(nothing, 10).tolist() == ndcg_at_k(nothing, judged, 10).tolist() == [0.0]


def test_ties_go_by_falling_id_whatever_the_input_order() -> None:
    assert order_by_score(["a", "c", "b"], [1.0, 1.0, 2.0]) == order_by_score(["c", "b", "a"], [1.0, 2.0, 1.0])
    assert order_by_score(["a", "c", "b"], [1.0, 1.0, 2.0]) == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("rankings", "judgements", "message"),
    [([["a", "a"]], [{"a": 1}], "twice"), ([["a"]], [], "1 rankings and 0")],
)
def test_bad_input_is_named(rankings, judgements, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ranked_relevance(rankings, judgements)


def test_a_cutoff_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="k is 0"):
        mrr_at_k(np.ones((1, 1)), 0)
