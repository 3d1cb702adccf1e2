"""Vectors of texts by their words: near where words are shared, and the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.texts.latent import by_words, plane

TEXTS = ["find a passage on floods", "find a passage on storms", "Find: a passage, on storms!", "is it true or false"]


def test_texts_that_share_words_are_near_and_those_with_the_same_words_are_one():
    of = by_words(TEXTS, 0)
    cosines = of @ of.T
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-5)
    assert cosines[1, 2] == pytest.approx(1, abs=1e-5)
    assert cosines[0, 1] > 0.2 and abs(cosines[0, 3]) < 1e-5
    assert (of == by_words(TEXTS, 0)).all() and (of != by_words(TEXTS, 1)).any()


def test_a_text_without_a_word_that_tells_it_apart_has_no_direction():
    assert not by_words(["the same", "the same"], 0).any()


def test_the_plane_keeps_the_two_directions_in_which_vectors_vary_most():
    random = np.random.default_rng(0)
    flat = random.standard_normal((50, 2)) * [5, 1]
    turned = flat @ np.linalg.qr(random.standard_normal((8, 8)))[0][:2] + 3
    found = plane(turned)
    apart = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found[None], axis=2), apart, atol=1e-8)
    assert found[:, 0].var() > found[:, 1].var()


def test_the_text_furthest_from_the_middle_is_on_the_positive_side():
    random = np.random.default_rng(0)
    for found in (plane(random.standard_normal((9, 4))) for _ in range(8)):
        assert (found.max(axis=0) > -found.min(axis=0)).all()


def test_what_varies_in_one_direction_alone_is_on_a_line():
    np.testing.assert_allclose(plane(np.array([[1.0], [3.0], [8.0]])), [[-3, 0], [-1, 0], [4, 0]], atol=1e-12)
