from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.curation.build_summary import summary, tell_chosen
from pipeline_tasks.curation.negative_rules import Chosen


def test_tables_of_blocks_add_up_to_what_numpy_says_of_all_rows():
    chance = np.random.default_rng(4)
    chosen = Chosen.empty(300, 5, 2)
    chosen.n[:] = chance.integers(0, 6, 300)
    for row, n in enumerate(chosen.n):
        chosen.scores[row, :n] = chance.uniform(-0.5, 0.9, n)
    positive, intent = chance.uniform(0.2, 1, 300).astype(np.float32), chance.integers(0, 2, 300)
    told = []
    for at in range(0, 300, 77):
        some = slice(at, at + 77)
        block = Chosen(chosen.codes[some], chosen.scores[some], chosen.n[some], np.full((2, 6), at))
        told.append(tell_chosen(block, positive[some], intent[some], ["qa", "sts"]))
    found = summary(told)
    there = np.arange(5) < chosen.n[:, None]
    gaps = (positive[:, None] - chosen.scores)[there]
    for level, value in zip((5, 25, 50, 75, 95), np.percentile(gaps, (5, 25, 50, 75, 95)), strict=True):
        assert found[f"gap_score_p{level:02d}"] == pytest.approx(value, abs=1e-4)
    expected = {"min": gaps.min(), "max": gaps.max(), "mean": gaps.mean(dtype=np.float64)}
    assert {name: found[f"gap_score_{name}"] for name in expected} == pytest.approx(expected, abs=6e-5)
    of_sts = (positive[:, None] - chosen.scores)[there & (intent == 1)[:, None]]
    assert found["gap_score_mean/sts"] == pytest.approx(of_sts.mean(), abs=6e-5)
    assert found["negatives"] == there.sum() and found["triplets/qa"] == ((chosen.n > 0) & (intent == 0)).sum()
    assert found["short_queries"] == ((chosen.n > 0) & (chosen.n < 5)).sum()
    assert found["skipped_other_split/qa"] == 77 + 154 + 231 and found["skipped_other_split"] == 2 * (77 + 154 + 231)


def test_nothing_chosen_has_no_cosines():
    found = summary([tell_chosen(Chosen.empty(0, 5, 0), np.empty(0, np.float32), np.empty(0, np.int8), [])])
    assert found["negatives"] == found["short_queries"] == found["skipped_too_similar"] == 0
    assert not [name for name in found if name.startswith("gap")]
