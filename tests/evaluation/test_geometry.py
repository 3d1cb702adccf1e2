"""Alignment and uniformity against cases worked out by hand."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.evaluation.geometry import geometry, of_sample

EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


def test_alignment_is_the_mean_squared_distance_and_its_share_of_the_nearest_one():
    queries, passages = np.array([NORTH, [0.6, 0.8]]), np.array([EAST, NORTH, WEST])
    found = geometry(queries, np.array([1, 0]), passages)
    assert found.alignment == pytest.approx((0 + 0.8) / 2), "2 - 2 cos"
    assert found.normalised_alignment == pytest.approx((1 + 0.8 / 0.4) / 2), "the second's nearest is north, at 0.4"


def test_uniformity_is_that_of_all_pairs_of_different_passages():
    passages = np.array([EAST, NORTH, WEST])
    found = geometry(passages[:1], np.array([0]), passages)
    assert found.uniformity == pytest.approx(-log((2 * exp(-2 * 2) + exp(-2 * 4)) / 3))
    gathered = np.array([EAST, EAST, [0.8, 0.6]])
    assert geometry(gathered[:1], np.array([0]), gathered).uniformity < found.uniformity


def test_blocks_change_nothing(monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(9, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    whole = geometry(vectors[:5], np.arange(5)[::-1], vectors)
    monkeypatch.setattr("pipeline_tasks.evaluation.geometry._BLOCK", 2)
    assert geometry(vectors[:5], np.arange(5)[::-1], vectors) == pytest.approx(whole)


def test_nothing_has_no_geometry():
    with pytest.raises(InputError, match="0 queries and 2 passages"):
        geometry(np.zeros((0, 2)), np.zeros(0, int), np.array([EAST, NORTH]))


def test_a_sample_has_the_passages_of_its_queries_and_a_small_corpus_is_taken_whole(monkeypatch):
    random = np.random.default_rng(1)
    vectors = random.normal(size=(40, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries, positives = vectors[:9], np.arange(9) + 20
    assert of_sample(queries, positives, vectors) == pytest.approx(geometry(queries, positives, vectors))
    monkeypatch.setattr("pipeline_tasks.evaluation.geometry._PASSAGES", 3)
    found = of_sample(queries, positives, vectors)
    assert found.alignment == pytest.approx(geometry(queries, positives, vectors).alignment)
    assert found == of_sample(queries, positives, vectors)
