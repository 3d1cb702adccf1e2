"""What ``learning.py`` keeps, which negatives it gives a pair, and what a teacher makes of them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PASSAGES = {"a": "sandbags", "b": "levees", "c": "shelters", "d": "of a judged document"}
VECTORS = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0.9, 0.436]], np.float32)
ASKED = np.array([[1, 0], [0, 1], [1, 0]], np.float32)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import learning_stages

    return learning_stages


@pytest.fixture
def planted(stages: ModuleType) -> tuple[Any, Any]:
    """Three pairs of two queries, one of which two passages answer; systems that rank in opposite orders."""
    from judged_sets import JudgedSet, Pair, Query

    dry, bed = "what holds water back?", "where to sleep?"
    pairs = [Pair(dry, "a"), Pair(bed, "c"), Pair(dry, "b")]
    data = JudgedSet(PASSAGES, [Query("judged", "qa", "dev", {"d": 2})], pairs)
    ranked = np.argsort(-(ASKED @ VECTORS.T), axis=1)
    rankings = {"bm25": ranked[:, ::-1], "encoder": ranked}
    return data, stages.References({}, rankings, {"encoder": {"passages": VECTORS, "pairs": ASKED}})


def test_what_was_made_is_not_made_again_and_what_failed_leaves_nothing(stages: ModuleType, tmp_path: Path):
    path = tmp_path / "of" / "a.npz"
    with pytest.raises(ZeroDivisionError):
        stages.kept(path, lambda: {"ranked": np.array([1 // 0])})
    assert not list(tmp_path.iterdir())
    for made in (3, 4):
        assert stages.kept(path, lambda made=made: {"ranked": np.array([made])})["ranked"].tolist() == [3]


def test_no_negative_answers_the_query_or_is_of_a_judged_document(stages: ModuleType, planted: tuple[Any, Any]):
    assert stages.negatives(*planted) == [["c"], ["b", "a"], ["c"]]


def test_a_teacher_scores_the_source_first_and_then_each_negative(stages: ModuleType, planted: tuple[Any, Any]):
    mined = stages.negatives(*planted)
    of_one = stages.taught(planted[0], mined, planted[1], "encoder")
    assert [np.round(row, 2).tolist() for row in of_one] == [[1.0, 0.6], [0.8, 0.6, 0.0], [0.8, 0.6]]
    of_all = stages.taught(planted[0], mined, planted[1], "rrf")
    assert [len(row) for row in of_all] == [2, 3, 2]
    assert of_all[1][0] == pytest.approx(1 / 61 + 1 / 64)
