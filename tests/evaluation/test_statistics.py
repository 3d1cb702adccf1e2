"""Intervals hold what they promise, tests find what is there and nothing that is not."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata, wilcoxon

from pipeline_tasks.evaluation.statistics import COUNTED, against, compare, holm, interval, p_greater, weights

INTENTS = ["qa"] * 60 + ["nli"] * 20


def test_every_intent_counts_alike():
    found = weights(["qa", "nli", "qa", "qa"])
    np.testing.assert_allclose(found, [1 / 6, 1 / 2, 1 / 6, 1 / 6])


def test_an_interval_holds_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    truth, trials = 0.5 * (0.3 + 0.6), 200
    held = 0
    for trial in range(trials):
        values = np.concatenate([rng.binomial(1, 0.3, 60), rng.binomial(1, 0.6, 20)]).astype(float)
        low, high = interval(values, INTENTS, seed=trial)
        held += low <= truth <= high
    assert 0.88 <= held / trials <= 0.99


def test_one_query_alone_has_no_width():
    assert interval(np.array([0.25]), ["qa"]) == (0.25, 0.25)


def test_an_intent_of_one_query_is_not_taken_for_certain():
    values = np.concatenate([np.random.default_rng(0).normal(0.001, 0.2, 60), [0.9]])
    low, high = interval(values, ["qa"] * 60 + ["nli"])
    assert low < 0.45 - 0.1 and high > 0.45 + 0.1
    low, high = interval(np.array([0.1, 0.3, 0.2, 0.4, 0.0]), list("abcde"))
    assert low < 0.2 - 0.05 and high > 0.2 + 0.05
    assert interval(np.full(3, 0.5), list("abc")) == (0.5, 0.5), "nothing says that they differ"


def test_the_signed_rank_test_equals_a_table_by_hand():
    """Five differences of one sign: 1 of 32 ways to hand out the signs."""
    assert p_greater(np.arange(1, 6) / 10, np.zeros(5)) == pytest.approx(1 / 32)
    assert p_greater(np.zeros(5), np.zeros(5)) == 1.0


@pytest.mark.parametrize("n", [1, 4, 7, 11])
@pytest.mark.parametrize("kinds", [1, 3, 1000])
def test_the_signed_rank_test_equals_a_count_of_all_signs(n, kinds):
    rng = np.random.default_rng(n)
    sizes = rng.integers(1, kinds + 1, n) / 1000
    ranks = rankdata(sizes)
    sums = np.array([ranks[np.array(kept)].sum() for kept in product([False, True], repeat=n)])
    for _ in range(20):
        differences = sizes * rng.choice([-1, 1], n)
        expected = (sums >= ranks[differences > 0].sum()).mean()
        alike = np.zeros(100)
        assert p_greater(np.concatenate([differences, alike]), np.zeros(n + 100)) == pytest.approx(expected)


def test_four_queries_that_differ_of_many_are_no_proof():
    better = np.zeros(100)
    better[:4] = 1.0
    found = compare(better, np.zeros(100), ["qa"] * 100)
    assert found.p == 1 / 16 and found.in_words().startswith("no difference that could not be luck")
    assert found.p_worse == 1.0


@pytest.mark.parametrize("kinds", [4, 1000])
def test_where_p_is_no_longer_counted_it_is_about_the_same(kinds):
    rng = np.random.default_rng(0)
    differences = rng.integers(1, kinds + 1, COUNTED) / 1000 * rng.choice([-1, 1], COUNTED)
    counted = p_greater(differences, np.zeros(COUNTED))
    near = float(wilcoxon(differences, alternative="greater", method="approx").pvalue)
    assert 0.01 < counted < 0.99 and counted == pytest.approx(near, rel=0.05)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_gain_is_told_from_luck():
    rng = np.random.default_rng(0)
    base = rng.random(80)
    better = compare(np.minimum(1, base + rng.normal(0.1, 0.1, 80)), base, INTENTS)
    assert better.low > 0 and better.p < 0.001 and better.in_words().startswith("better, and hardly by luck")
    same = compare(base + rng.normal(0, 0.1, 80), base, INTENTS)
    assert same.low < 0 < same.high and same.in_words().startswith("no difference that could not be luck")
    worse = compare(base - 0.1, base, INTENTS)
    assert (worse.wins, worse.losses) == (0, 80) and worse.in_words().startswith("worse, and hardly by luck")


def test_several_questions_raise_every_p():
    rng = np.random.default_rng(3)
    base = rng.random(80)
    values = {"base": base} | {f"s{i}": base + rng.normal(0.02, 0.1, 80) for i in range(4)}
    together = against(values, "base", INTENTS)
    alone = {name: compare(own, base, INTENTS) for name, own in values.items() if name != "base"}
    assert list(together) == ["s0", "s1", "s2", "s3"]
    assert all(together[name].p >= alone[name].p for name in together)
    assert min(d.p for d in together.values()) == pytest.approx(min(1, 4 * min(d.p for d in alone.values())))
