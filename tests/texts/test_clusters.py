from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_tasks.texts.clusters import cluster, shared_buckets, united
from pipeline_tasks.texts.minhash import band_keys, band_rows, sketch_texts
from tests.corpus.near_duplicates import a_text, all_pairs, edited, exact_jaccard, planted


def clustered(texts: list[str], threshold: float, shingle_words: int = 3) -> dict[int, tuple[int, float]]:
    """Duplicate -> (original, Jaccard)."""
    made = sketch_texts(pa.array(texts, pa.string()), shingle_words)
    buckets = shared_buckets(band_keys(made.signatures, band_rows(threshold, 128)))
    originals, similarities, _ = cluster(np.ascontiguousarray(buckets.T), made.shingles, made.offsets, threshold)
    assert (similarities[originals == np.arange(len(texts))] == 1).all()
    return {i: (int(o), similarities[i]) for i, o in enumerate(originals) if o != i}


@pytest.mark.parametrize(("threshold", "n"), [(0.3, 40), (0.45, 40), (0.8, 27), (0.95, 14), (1.0, 14)])
def test_finds_what_all_pairs_find(threshold, n):
    texts = planted()
    found = clustered(texts, threshold)
    assert found == all_pairs(texts, threshold)
    assert len(found) == n


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_many_copies_in_any_order_are_those_of_all_pairs(seed):
    """Copies of copies around the threshold: who stays decides about who goes."""
    chance = random.Random(seed)
    texts = []
    for _ in range(12):
        family = [a_text(chance, 80)]
        family += [edited(chance, chance.choice(family), chance.randrange(5)) for _ in range(12)]
        texts += [" ".join(words) for words in family]
    chance.shuffle(texts)
    found, expected = clustered(texts, 0.8), all_pairs(texts, 0.8)
    assert found == expected and 12 <= len(found) < len(texts) - 12


def test_no_false_one_and_hardly_a_missed_one_among_many_at_the_threshold():
    """150 pairs with Jaccards from 0.7 to 0.9."""
    texts = planted(seed=3, n=150, edits=tuple(range(5, 18)))
    found, expected = clustered(texts, 0.8), all_pairs(texts, 0.8)
    assert set(found.items()) <= set(expected.items())
    assert len(found) >= 0.99 * len(expected) > 40


@pytest.mark.parametrize("cut", [1, 30, 41, 79])
def test_later_documents_never_move_earlier_ones(cut):
    texts = planted()
    whole = clustered(texts, 0.45)
    assert clustered(texts[:cut], 0.45) == {i: pair for i, pair in whole.items() if i < cut}


def test_a_pair_exactly_at_the_threshold_is_a_duplicate():
    """Word sets {a..i} and {a..g, x, y}: 7 shared of 11."""
    texts = ["a b c d e f g h i", "a b c d e f g x y"]
    assert clustered(texts, 7 / 11, shingle_words=1) == {1: (0, 7 / 11)}
    assert clustered(texts, 7 / 11 + 1e-9, shingle_words=1) == {}


@pytest.mark.parametrize("n_words", [5, 50, 1000])
def test_a_pair_exactly_at_the_threshold_is_found_at_any_length(n_words):
    shared = [f"w{i}" for i in range(4 * n_words)]
    texts = [" ".join([*shared, *(f"{side}{i}" for i in range(n_words // 2 + side))]) for side in (0, 1)]
    at = exact_jaccard(*texts, 1)
    assert clustered(texts, at, shingle_words=1) == {1: (0, at)}
    assert clustered(texts, at + 1e-9, shingle_words=1) == {}


def test_a_chain_is_not_merged():
    """The third is like the second, which is gone; it is unlike the first, which stayed."""
    chance = random.Random(2)
    first = a_text(chance)
    second = edited(chance, first, 6)
    third = second[:150] + edited(chance, second[150:], 6)
    texts = [" ".join(words) for words in (first, second, third)]
    assert exact_jaccard(texts[0], texts[1]) >= 0.85 and exact_jaccard(texts[1], texts[2]) >= 0.85
    assert exact_jaccard(texts[0], texts[2]) < 0.85
    assert [(i, original) for i, (original, _) in clustered(texts, 0.85).items()] == [(1, 0)]


def test_the_most_similar_original_is_named_and_of_equals_the_earliest():
    base = [f"w{i}" for i in range(20)]
    texts = [" ".join(words) for words in (base[:16], base[4:], base[:19], base[:18])]
    found = clustered(texts, 0.85, shingle_words=1)
    assert {i: original for i, (original, _) in found.items()} == {3: 2}
    alike = [" ".join([*base, "x"]), " ".join([*base, "y"]), " ".join(base)]
    assert clustered(alike, 0.95, shingle_words=1) == {2: (0, 20 / 21)}


def test_thousands_of_identical_documents_cost_one_comparison_each():
    made = sketch_texts(pa.array(["the same words in every document"] * 20_000))
    buckets = np.ascontiguousarray(shared_buckets(band_keys(made.signatures, 5)).T)
    originals, similarities, compared = cluster(buckets, made.shingles, made.offsets, 0.8)
    assert (originals == 0).all() and (similarities == 1).all() and compared == 19_999


def test_empty_documents_are_alike_and_one_word_is_not_another():
    assert clustered(["", "one", " - ", "two", "ONE"], 0.8) == {2: (0, 1.0), 4: (1, 1.0)}


def test_buckets_hold_those_who_share_a_key_and_nobody_else():
    keys = np.array([[7, 5, 7, 9, 5, 5], [1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 3]], np.uint64)
    assert shared_buckets(keys).tolist() == [[1, 0, 1, -1, 0, 0], [-1] * 6, [2, 2, 3, 3, -1, -1]]
    assert shared_buckets(np.zeros((4, 0), np.uint64)).shape == (4, 0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60), st.integers(1, 60))
def test_connected_texts_have_their_first_one_in_common(pairs, most):
    groups = [{i} for i in range(30)]
    for text, other in pairs:
        joined = groups[text] | groups[other]
        for member in joined:
            groups[member] = joined
    arrays = (np.array(pairs[at : at + most], np.int64).reshape(-1, 2).T for at in range(0, len(pairs), most))
    assert united(30, ((texts.copy(), others.copy()) for texts, others in arrays)).tolist() == list(map(min, groups))
