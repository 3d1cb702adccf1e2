"""p-MRR is mteb's, and its sign says whether a ranking follows its instruction."""

from __future__ import annotations

import numpy as np
import pytest
from mteb._evaluators.retrieval_metrics import calculate_pmrr, evaluate_p_mrr_change

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.evaluation.p_mrr import changed, p_mrr

RELEVANT = {"a": 1, "b": 1}


def random_queries(seed: int) -> tuple[list, list, list, list]:
    """Rankings and judgements of a few queries under both instructions."""
    random = np.random.default_rng(seed)
    passages = [f"d{i:02}" for i in range(int(random.integers(5, 40)))]
    before, after, judged, told = [], [], [], []
    for _ in range(int(random.integers(1, 8))):
        for rankings in (before, after):
            rankings.append(list(random.permutation(passages)[: int(random.integers(2, len(passages) + 1))]))
        relevant = list(random.permutation(passages)[: int(random.integers(2, 5))])
        judged.append(dict.fromkeys(relevant, 1))
        told.append(judged[-1] | dict.fromkeys(relevant[: int(random.integers(1, len(relevant)))], 0))
    return before, after, judged, told


def of_mteb(before: list, after: list, judged: list, told: list) -> tuple[dict, dict, dict]:
    """Qrels, runs, and what changes, as mteb has them."""
    rankings, grades = (("-og", before), ("-changed", after)), (("-og", judged), ("-changed", told))
    runs = {f"q{i}{end}": {d: float(-n) for n, d in enumerate(r)} for end, of in rankings for i, r in enumerate(of)}
    qrels = {f"q{i}{end}": known for end, of in grades for i, known in enumerate(of)}
    return qrels, runs, {f"q{i}": list(changed(*pair)) for i, pair in enumerate(zip(judged, told, strict=True))}


def test_it_is_that_of_mteb_on_fifty_random_runs():
    for seed in range(50):
        queries = random_queries(seed)
        _, runs, differences = of_mteb(*queries)
        assert p_mrr(*queries).mean() == pytest.approx(calculate_pmrr(runs, runs, differences), abs=1e-12)


def test_measures_under_either_instruction_are_those_of_mteb():
    queries = before, after, judged, told = random_queries(0)
    theirs = evaluate_p_mrr_change(*of_mteb(*queries), [1, 3, 5, 10, 1000])
    for end, rankings, grades in (("og", before, judged), ("changed", after, told)):
        for name, ours in score(rankings, grades, ["ndcg@5", "map@1000"]).items():
            assert ours.mean() == pytest.approx(theirs[end][name.replace("@", "_at_")], abs=1e-5), "of five digits"


@pytest.mark.parametrize(
    ("after", "value"), [("bca", 2 / 3), ("abc", 0.0), ("cba", 2 / 3), ("bac", 1 / 2), ("cb", 2 / 3)]
)
def test_a_passage_that_loses_its_relevance_is_to_fall(after, value):
    assert p_mrr(["abc"], [after], [RELEVANT], [{"a": 0, "b": 1}]) == pytest.approx([value])


def test_a_passage_that_becomes_relevant_is_to_rise_by_as_much():
    lost = p_mrr(["abc"], ["bca"], [RELEVANT], [{"b": 1}])
    assert p_mrr(["bca"], ["abc"], [{"b": 1}], [RELEVANT]) == pytest.approx(lost)


def test_where_no_relevance_changes_there_is_nothing_to_follow():
    with pytest.raises(InputError, match="no passage"):
        p_mrr(["abc"], ["bca"], [RELEVANT], [{"a": 2, "b": 1}])
