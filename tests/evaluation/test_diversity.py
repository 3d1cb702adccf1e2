"""Diversity of texts against what their definitions say, pair by pair."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from pipeline_tasks.evaluation.diversity import average_similarity, inverse_gram_frequency


@pytest.mark.parametrize("n", [2, 3, 40])
def test_average_similarity_is_the_mean_over_pairs(n):
    vectors = np.random.default_rng(n).normal(size=(n, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [float(one @ other) for one, other in combinations(vectors.astype(np.float64), 2)]
    assert average_similarity(vectors) == pytest.approx(np.mean(pairs), abs=1e-7)


def test_copies_are_as_similar_as_can_be_and_opposites_as_little():
    one = np.array([[0.6, 0.8]], np.float32)
    assert average_similarity(np.repeat(one, 5, axis=0)) == pytest.approx(1)
    assert average_similarity(np.concatenate([one, -one])) == pytest.approx(-1)


def test_an_n_gram_counts_by_how_many_texts_hold_it():
    texts = ["Only from Peru, only new", "Only from Chile", "nothing"]
    words = [{"only", "from", "peru", "new"}, {"only", "from", "chile"}, {"nothing"}]
    by_hand = [1 / sum(word in other for other in words) for text in words for word in text]
    assert inverse_gram_frequency(texts, 1) == pytest.approx(np.mean(by_hand)) == pytest.approx(6 / 8)
    assert inverse_gram_frequency(texts, 2) == pytest.approx(5 / 6)  # "only from" is in two
    assert inverse_gram_frequency(texts, 3) == 1.0
    assert math.isnan(inverse_gram_frequency(texts, 9)) and math.isnan(inverse_gram_frequency([], 1))


def test_texts_that_are_alike_are_less_diverse():
    copies, different = ["leave out what is old"] * 4, [" ".join(f"{word}{n}" for word in "abcd") for n in range(4)]
    assert [inverse_gram_frequency(copies, n) for n in (1, 2, 3)] == [0.25, 0.25, 0.25]
    assert [inverse_gram_frequency(different, n) for n in (1, 2, 3)] == [1, 1, 1]
