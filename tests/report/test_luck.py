"""Is it luck? In words."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.evaluation.statistics import Difference, compare
from pipeline_tasks.report.luck import in_short, in_words

RANDOM = np.random.default_rng(0)
START = RANDOM.uniform(0, 1, 60)
NOISE = RANDOM.normal(0, 0.1, 60)


def test_a_small_p_alone_is_not_enough_where_the_interval_has_zero():
    found = Difference(n=195, gain=-0.044, low=-0.095, high=0.006, p=0.97, p_worse=0.034, wins=48, losses=63)
    assert in_short(found) == "may be luck"
    assert "That may be luck (p = 0.034): the interval has zero in it." in in_words("new", "old", found)


@pytest.mark.parametrize(
    ("new", "short", "words"),
    [
        (START + 0.1 + NOISE, "better", "That is hardly luck"),
        (START - 0.1 + NOISE, "worse", "That is hardly luck"),
        (START + NOISE - NOISE.mean() + 0.002, "may be luck", "That may be luck"),
        (START, "may be luck", "new scores as old"),
    ],
)
def test_a_difference_is_called_what_it_is(new, short, words):
    found = compare(new, START, ["qa"] * 60)
    assert in_short(found) == short
    assert words in in_words("new", "old", found)


def test_what_is_left_of_rounding_is_no_difference():
    found = Difference(n=3, gain=5e-18, low=-0.1, high=0.1, p=0.5, p_worse=0.5, wins=1, losses=1)
    assert in_words("new", "old", found).startswith("new scores as old")
