"""What the demo says it came to is what the rows of its evaluation say, gain or loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import EVALUATIONS, PASSAGES
from pipeline_tasks.demo.result import Result, Shown, result_of
from pipeline_tasks.models.use import REFERENCE_MODELS
from tests.stores import put

QUERIES = 40


@pytest.fixture
def result(tmp_path: Path) -> Callable[[float], Result]:
    """What comes of a model that gained so much on every question."""

    def of(gain: float) -> Result:
        store = LocalStore(tmp_path / "store")
        trained = str(put(store, PASSAGES, [], dataset="model/22m/finetune"))
        names = {"bm25": "", "22m/untrained": "", "22m/finetune-0.95": trained} | dict.fromkeys(REFERENCE_MODELS, "")
        start = np.random.default_rng(0).uniform(0.3, 0.6, QUERIES)
        rows = [
            {
                "evaluation_id": f"{name}/{i}",
                "system": name,
                "model_version": version,
                "query_id": f"{i:02}",
                "intent": ("qa", "nli")[i % 2],
                "query": "why",
                "scores": [("ndcg@10", float(start[i] + gain * bool(version)))],
            }
            for name, version in names.items()
            for i in range(QUERIES)
        ]
        put(store, EVALUATIONS, rows, dataset="eval/questions")
        return result_of(store, "22m")

    return of


def test_a_gain_is_said_with_its_interval_and_its_p(result) -> None:
    found = result(0.1)
    assert found.facts["questions"] == QUERIES and found.facts["p_value"] < 0.001
    assert found.facts["trained_ndcg"] == pytest.approx(found.facts["start_ndcg"] + 0.1, abs=1e-3)
    assert found.facts.keys() == {
        "questions", "start_ndcg", "trained_ndcg", "p_value", "bm25_ndcg", "best_reference_ndcg",
    }  # fmt: skip
    assert "+10.0 points" in found.in_words and "better, and hardly by luck" in found.in_words
    assert found.table.rows[-1][0] == "22m/finetune-0.95"


@pytest.mark.parametrize(("gain", "said"), [(0.0, "no difference that could not be luck"), (-0.1, "worse, and hardly")])
def test_where_there_is_no_gain_the_last_line_says_so(result, gain, said) -> None:
    assert said in result(gain).in_words


def test_a_narrow_terminal_does_without_the_intents() -> None:
    shown = Shown("t", ["system", "score", "qa", "nli"], [["bm25", "0.5", "0.4", "0.6"]], spare=2)
    assert shown.within(200) is shown
    assert (shown.within(20).head, shown.within(20).rows) == (["system", "score"], [["bm25", "0.5"]])
