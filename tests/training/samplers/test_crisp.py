"""CRISP draws clusters as often as targets fall into them, and takes nothing of the budget."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.sampler import Pool
from pipeline_tasks.training.samplers import sampler

POOL = Pool(["a/cluster-0", "a/cluster-1", "b/cluster-0"], np.array([60, 30, 10]), 50, np.array([0.0, 0.25, 0.75]))


def test_a_row_weighs_the_share_of_the_targets_over_that_of_the_rows() -> None:
    ours = sampler("crisp")
    likely = ours.probabilities(POOL, ours.begin(POOL), 0)
    of_a_row = likely / POOL.n_rows
    np.testing.assert_allclose(of_a_row * POOL.n_rows.sum(), [0, 0.25 / 0.3, 0.75 / 0.1])


def test_smoothing_leaves_no_cluster_out() -> None:
    ours = sampler({"name": "crisp", "smoothing": 0.1})
    likely = ours.probabilities(POOL, ours.begin(POOL), 0)
    np.testing.assert_allclose(likely, [0.06, 0.9 * 0.25 + 0.03, 0.9 * 0.75 + 0.01])


def test_it_never_changes_and_takes_no_gradient() -> None:
    ours = sampler("crisp")
    state = ours.begin(POOL)
    assert ours.probabilities(POOL, state, 0).tolist() == ours.probabilities(POOL, state, 49).tolist()
    assert not any(ours.due(step) for step in range(50))
    assert ours.takes(len(POOL)).gradients == 0


def test_another_sampler_may_start_from_it() -> None:
    ours = sampler({"name": "inf_dds", "start": {"name": "crisp", "smoothing": 0.1}})
    first = sampler(ours.start)
    expected = first.probabilities(POOL, first.begin(POOL), 0)
    np.testing.assert_allclose(ours.probabilities(POOL, ours.begin(POOL), 0), expected)


def test_without_clusters_or_targets_it_says_what_to_set() -> None:
    with pytest.raises(InputError, match="set clusters=32, and name judged sets, or have dev queries"):
        sampler("crisp").begin(Pool(POOL.names, POOL.n_rows, 50))
