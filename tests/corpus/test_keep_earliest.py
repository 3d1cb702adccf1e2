from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_tasks.corpus.all_pairs import AllPairs
from pipeline_tasks.corpus.keep_earliest import UNKNOWN, keep_earliest, most_alike, settle
from tests.corpus.vectors import brute_representatives, planted


class InMemory:
    """Rows whose vectors are at hand; every row's work is counted."""

    def __init__(self, vectors: np.ndarray, batch: int = 5, threshold: float = 0.9) -> None:
        self.pairs, self.batch = AllPairs(vectors, threshold), batch

    def batches(self, rows):
        yield from (rows[at : at + self.batch] for at in range(0, len(rows), self.batch))

    def decide(self, rows, standing):
        found = [self.pairs.above(rows, standing)]
        here, cosines = settle(self._of(rows), np.isin(rows, found[0][0]), block=3)
        known = np.flatnonzero(here != UNKNOWN)
        found.append((rows[known], rows[here[known]], cosines[known]))
        return most_alike(*map(np.concatenate, zip(*found, strict=True)))[1:]

    def alike(self, rows, columns):
        return np.unique(self.pairs.above(rows, columns)[0])

    def _of(self, rows):
        return AllPairs(self.pairs.vectors[rows], self.pairs.threshold)


def fresh(vectors, threshold=0.9, block=2048):
    return settle(AllPairs(vectors, threshold), np.zeros(len(vectors), bool), block)


@pytest.mark.parametrize(("n", "seed", "threshold"), [(200, 0, 0.9), (400, 1, 0.85), (900, 2, 0.95), (300, 3, 0.6)])
def test_the_same_as_all_pairs_one_by_one(n, seed, threshold):
    vectors = planted(n, seed)
    representatives, cosines = fresh(vectors, threshold)
    assert representatives.tolist() == brute_representatives(vectors, threshold)
    assert 0.1 * n < (representatives != np.arange(len(vectors))).sum()
    exact = (vectors.astype(np.float64) * vectors[representatives]).sum(axis=1)
    own = representatives == np.arange(len(vectors))
    assert (cosines[own] == 1).all() and np.allclose(cosines[~own], np.minimum(exact[~own], 1), atol=1e-12)


@pytest.mark.parametrize("block", [1, 3, 64])
def test_blocks_have_no_say(block):
    vectors = planted(150, seed=4)
    whole, parts = fresh(vectors), fresh(vectors, block=block)
    assert [a.tobytes() for a in whole] == [a.tobytes() for a in parts]


def test_a_chain_is_not_merged():
    """Four directions 20 degrees apart: cosine 0.94 to the next, 0.77 to the one after."""
    angles = np.radians([0, 20, 40, 60])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert fresh(vectors)[0].tolist() == [0, 0, 2, 2]


def test_of_equal_cosines_the_earlier_is_named():
    angles = np.radians([-20, 20, 0, 180, 0, -20])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert fresh(vectors)[0].tolist() == [0, 1, 0, 3, 0, 0]


def test_many_copies_of_one_cost_one_comparison_each():
    """2,000 equal rows are two million pairs; all but the first block are compared with the one that stays."""
    vectors = np.repeat(planted(2, 0)[:1], 2000, axis=0)
    pairs = AllPairs(vectors, 0.9)
    representatives, _ = settle(pairs, np.zeros(2000, bool), block=100)
    assert not representatives.any()
    assert pairs.checked < 10_000


def test_rows_that_are_like_one_elsewhere_do_not_stand():
    """The first three are alike; the first is like a row elsewhere, so the second stands, and the third is like it."""
    angles = np.radians([0, 5, 9, 90])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    for block in (1, 10):
        found = settle(AllPairs(vectors, 0.9), np.array([True, False, False, False]), block)[0]
        assert found.tolist() == [UNKNOWN, 1, 1, 3]


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.floats(0, 1), st.integers(0, 12), st.sampled_from([2, 3, 12]), st.data())
def test_what_is_known_changes_nothing(seed, gone, n_new, d, data):
    """Rows go (representatives too) and come, at the end or between; then the answer is that of a fresh run.

    In few dimensions everything is near something: chains of rows that rise and fall.
    """
    rng = np.random.default_rng(seed)
    before = planted(40, seed, d=d, low=0.6)
    representatives, cosines = fresh(before)
    stays = rng.random(len(before)) >= gone
    fresh_rows = planted(20, seed + 1, d=d, low=0.6)[:n_new]
    old = np.flatnonzero(stays)
    drawn = data.draw(st.lists(st.integers(0, len(old)), min_size=n_new, max_size=n_new))
    places = np.sort(np.array(drawn, np.int64))
    after = np.insert(before[old], places, fresh_rows, axis=0)
    origin = np.insert(old, places, UNKNOWN)
    now = {int(row): index for index, row in enumerate(origin) if row != UNKNOWN}
    known = np.array([now.get(int(representatives[row]), UNKNOWN) if row >= 0 else UNKNOWN for row in origin], np.int64)
    said = np.array([cosines[row] if row >= 0 else 0.0 for row in origin])
    again = keep_earliest(InMemory(after), known, said) if len(after) else (known, said)
    expected = fresh(after) if len(after) else (known, said)
    assert [a.tobytes() for a in again] == [a.tobytes() for a in expected]
    assert expected[0].tolist() == brute_representatives(after, 0.9)
