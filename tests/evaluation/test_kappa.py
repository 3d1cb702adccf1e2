"""Cohen's kappa and its interval."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.evaluation.kappa import agreement, kappa


def judged(both: int, one: int, other: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    """Answers with these counts: both yes, only the one, only the other, both no."""
    pairs = [(True, True)] * both + [(True, False)] * one + [(False, True)] * other + [(False, False)] * neither
    first, second = np.array(pairs, bool).reshape(-1, 2).T
    return first, second


@pytest.mark.parametrize(
    ("counts", "by_hand"),
    [
        ((20, 5, 10, 15), 0.4),  # p_o = 35/50, p_e = 25/50 * 30/50 + 25/50 * 20/50 = 0.5
        ((45, 15, 25, 15), 3 / 23),  # p_o = 0.6, p_e = 0.6 * 0.7 + 0.4 * 0.3 = 0.54
        ((25, 35, 5, 35), 0.14 / 0.54),  # p_o = 0.6, p_e = 0.6 * 0.3 + 0.4 * 0.7 = 0.46: the same share, another kappa
        ((3, 0, 0, 7), 1.0),
        ((0, 5, 5, 0), -1.0),
        ((1, 1, 1, 1), 0.0),
    ],
)
def test_kappa_is_what_it_is_by_hand(counts, by_hand):
    found = agreement(*judged(*counts))
    assert found.kappa == pytest.approx(by_hand)
    assert found.table == ((counts[0], counts[1]), (counts[2], counts[3])) and found.n == sum(counts)
    assert found.share == (counts[0] + counts[3]) / sum(counts)
    assert found.low <= found.kappa <= found.high


def test_kappa_is_of_more_classes_and_of_many_tables_at_once():
    of_three = np.array([[4, 1, 0], [2, 5, 1], [0, 1, 6]])  # p_o = 15/20, p_e = (5 * 6 + 8 * 7 + 7 * 7) / 400
    assert kappa(of_three) == pytest.approx((0.75 - 0.3375) / (1 - 0.3375))
    assert kappa(np.stack([of_three, 3 * np.eye(3)])) == pytest.approx([float(kappa(of_three)), 1])


@pytest.mark.parametrize("counts", [(9, 0, 0, 0), (0, 0, 0, 9)])
def test_where_both_say_the_same_of_everything_kappa_is_not_defined(counts):
    found = agreement(*judged(*counts))
    assert found.share == 1 and found.kappa is found.low is found.high is None


def test_the_interval_is_that_of_things_drawn_anew():
    one, other = judged(30, 8, 6, 20)
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(4000):
        at = random.integers(0, len(one), len(one))
        counts = [[(one[at] & other[at]).sum(), (one[at] & ~other[at]).sum()]]
        counts += [[(~one[at] & other[at]).sum(), (~one[at] & ~other[at]).sum()]]
        drawn.append(float(kappa(np.array(counts))))
    found = agreement(one, other)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.02)


def test_one_disagreement_among_agreement_has_an_interval_though_some_draws_have_no_kappa():
    found = agreement(*judged(5, 1, 0, 0))
    assert found.kappa == pytest.approx(0) and found.low is not None and not np.isnan([found.low, found.high]).any()


def test_nothing_judged_is_said_so():
    with pytest.raises(InputError, match="nothing was judged"):
        agreement(*judged(0, 0, 0, 0))
