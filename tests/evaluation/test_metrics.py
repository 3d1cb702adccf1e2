"""Our rankings, whose order is decided, score what trec_eval makes of the scores that they came from."""

import numpy as np
import pytest
import pytrec_eval

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.evaluation.metrics import score


def random_runs(n: int) -> tuple[list[dict[str, float]], list[dict[str, int]]]:
    """Graded judgements, some of unranked passages, some zero or below, and scores with many ties."""
    rng = np.random.default_rng(0)
    runs, judgements = [], []
    for _ in range(n):
        ids = [f"p{i}" for i in rng.choice(60, size=rng.integers(1, 40), replace=False)]
        runs.append({passage_id: float(rng.integers(0, 8)) / 4 for passage_id in ids})
        judged = rng.choice(60, size=rng.integers(1, 12), replace=False)
        judgements.append({f"p{i}": int(rng.integers(-1, 4)) for i in judged})
    return runs, judgements


def as_trec_eval_sorts(run: dict[str, float]) -> list[str]:
    """Ids by falling score, equal scores by falling id."""
    return [name for name, _ in sorted(run.items(), key=lambda item: (item[1], item[0]), reverse=True)]


@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_fifty_random_runs_equal_trec_eval(k: int) -> None:
    runs, judgements = random_runs(50)
    theirs = {"ndcg": f"ndcg_cut_{k}", "map": f"map_cut_{k}", "recall": f"recall_{k}", "precision": f"P_{k}"}
    theirs["hit"] = f"success_{k}"
    evaluator = pytrec_eval.RelevanceEvaluator(
        {f"q{i}": judged for i, judged in enumerate(judgements)},
        {f"{name.rpartition('_')[0]}.{k}" for name in theirs.values()},
    )
    expected = evaluator.evaluate({f"q{i}": run for i, run in enumerate(runs)})
    ours = score([as_trec_eval_sorts(run) for run in runs], judgements, [f"{kind}@{k}" for kind in theirs])
    for kind, name in theirs.items():
        values = [expected[f"q{i}"][name] for i in range(len(runs))]
        np.testing.assert_allclose(ours[f"{kind}@{k}"], values, atol=1e-9, err_msg=kind)


def test_reciprocal_rank_equals_trec_eval_and_is_cut() -> None:
    runs, judgements = random_runs(50)
    evaluator = pytrec_eval.RelevanceEvaluator({str(i): judged for i, judged in enumerate(judgements)}, {"recip_rank"})
    expected = evaluator.evaluate({str(i): run for i, run in enumerate(runs)})
    rankings = [as_trec_eval_sorts(run) for run in runs]
    whole = np.array([expected[str(i)]["recip_rank"] for i in range(len(runs))])
    found = score(rankings, judgements, ["mrr@100", "mrr@3"])
    np.testing.assert_allclose(found["mrr@100"], whole, atol=1e-9)
    np.testing.assert_allclose(found["mrr@3"], np.where(whole >= 1 / 3, whole, 0), atol=1e-9)


def test_by_hand() -> None:
    found = score(
        [["a", "b", "c"], ["b", "a"]], [{"a": 1, "c": 2}, {"a": 1}], ["ndcg@10", "mrr@10", "recall@2", "hit@1"]
    )
    best = 2 + 1 / np.log2(3)
    np.testing.assert_allclose(found["ndcg@10"], [(1 + 2 / np.log2(4)) / best, 1 / np.log2(3)])
    assert found["mrr@10"].tolist() == [1.0, 0.5]
    assert found["recall@2"].tolist() == [0.5, 1.0]
    assert found["hit@1"].tolist() == [1.0, 0.0]


def test_passages_that_nobody_judged_are_passed_over_where_that_is_asked() -> None:
    found = score([["x", "b", "a"]], [{"a": 1, "b": 0}], ["mrr@2", "mrr@2-judged", "ndcg@2", "ndcg@2-judged"])
    assert {name: values.tolist() for name, values in found.items()} == {
        "mrr@2": [0.0],
        "mrr@2-judged": [0.5],
        "ndcg@2": [0.0],
        "ndcg@2-judged": [pytest.approx(1 / np.log2(3))],
    }


def test_nothing_relevant_or_nothing_ranked_scores_zero() -> None:
    measures = ["ndcg@10", "map@10", "mrr@10", "recall@10", "hit@10", "precision@10"]
    for values in score([["a"], [], ["b"]], [{"a": 0}, {"a": 1}, {}], measures).values():
        assert values.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("rankings", "judgements", "measure", "message"),
    [
        ([["a", "a"]], [{"a": 1}], "ndcg@10", "twice"),
        ([["a"]], [], "ndcg@10", "1 rankings and 0"),
        ([["a"]], [{"a": 1}], "ndcg", "'ndcg' is no measure"),
        ([["a"]], [{"a": 1}], "mrr@0", "'mrr@0' is no measure"),
    ],
)
def test_bad_input_is_named(rankings, judgements, measure: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(rankings, judgements, [measure])


def test_grades_below_0_are_not_relevant_and_end_no_process():
    found = score([["a", "b"]] * 300, [{"a": -2}] * 300, ["ndcg@10"])
    assert found["ndcg@10"].tolist() == [0.0] * 300
    with_answer = score([["a", "b"]], [{"a": -2, "b": 1}], ["ndcg@10", "mrr@10"])
    assert with_answer == score([["a", "b"]], [{"a": 0, "b": 1}], ["ndcg@10", "mrr@10"])
