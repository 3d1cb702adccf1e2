from __future__ import annotations

import random
import re
from itertools import combinations

import numpy as np
import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.near_duplicate_documents import (
    NearDuplicateDocumentsParams,
    duplicates,
    near_duplicate_documents,
    shingle_hashes,
    similarity,
)
from pipeline_tasks.datasets import DOCUMENTS
from tests.stores import bare_run, go, put, rejects, rows

WORDS = [f"word{i}" for i in range(5000)]


def a_text(chance: random.Random, n: int = 300) -> list[str]:
    return chance.choices(WORDS, k=n)


def edited(chance: random.Random, words: list[str], n_edits: int) -> list[str]:
    """The same words with ``n_edits`` of them replaced, far apart; each costs three shingles on either side."""
    copy = list(words)
    step = len(copy) // max(1, n_edits)
    for at in range(0, step * n_edits, step):
        copy[at + step // 2] = f"edit{chance.random()}"
    return copy


def brute_jaccard(a: str, b: str, n: int) -> float:
    """Jaccard of the sets of shingles as tuples of words, without any hashing."""
    first, second = (_shingles(re.findall(r"\w+", text.lower()), n) for text in (a, b))
    return len(first & second) / len(first | second)


def _shingles(words: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + n]) for i in range(max(1, len(words) - n + 1))}


@pytest.fixture(scope="module")
def planted() -> list[str]:
    """40 unrelated texts, each followed later by an exact copy, a copy of Jaccard ~0.9 or one of ~0.5."""
    chance = random.Random(1)
    originals = [a_text(chance) for _ in range(40)]
    copies = [edited(chance, words, (0, 5, 33)[i % 3]) for i, words in enumerate(originals)]
    return [" ".join(words) for words in [*originals, *copies]]


def test_similarity_is_the_exact_jaccard(planted):
    for i in range(40):
        exact = brute_jaccard(planted[i], planted[40 + i], 3)
        assert similarity(planted[i], planted[40 + i], 3) == pytest.approx(exact)
        assert (1.0, 0.9, 0.5)[i % 3] == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("threshold", [0.3, 0.45, 0.8, 0.95])
def test_finds_what_all_pairs_find(planted, threshold, tmp_path):
    expected = {}
    for i, j in combinations(range(len(planted)), 2):
        if i not in expected and (exact := brute_jaccard(planted[i], planted[j], 3)) >= threshold:
            expected.setdefault(j, (i, exact))
    found = duplicates(planted, NearDuplicateDocumentsParams(threshold=threshold), bare_run(LocalStore(tmp_path)))
    assert {index: original for index, original, _ in found} == {j: i for j, (i, _) in expected.items()}
    for index, _, jaccard in found:
        assert jaccard == pytest.approx(expected[index][1])
    assert len(expected) == {0.3: 40, 0.45: 40, 0.8: 27, 0.95: 14}[threshold]


def test_a_pair_exactly_at_the_threshold_is_a_duplicate(tmp_path):
    """Word sets {a..i} and {a..g, x, y}: 7 shared of 11."""
    texts = ["a b c d e f g h i", "a b c d e f g x y"]
    run = bare_run(LocalStore(tmp_path))

    def found(threshold: float) -> list:
        return duplicates(texts, NearDuplicateDocumentsParams(threshold=threshold, shingle_words=1), run)

    assert [pair[:2] for pair in found(7 / 11)] == [(1, 0)]
    assert found(7 / 11 + 0.001) == []


def test_a_chain_is_not_merged(tmp_path):
    """The third is like the second, which is gone; it is unlike the first, which stayed."""
    chance = random.Random(2)
    first = a_text(chance)
    second = edited(chance, first, 6)
    third = second[:150] + edited(chance, second[150:], 6)
    texts = [" ".join(words) for words in (first, second, third)]
    assert similarity(texts[0], texts[1], 3) >= 0.85 and similarity(texts[1], texts[2], 3) >= 0.85
    assert similarity(texts[0], texts[2], 3) < 0.85
    found = duplicates(texts, NearDuplicateDocumentsParams(threshold=0.85), bare_run(LocalStore(tmp_path)))
    assert [pair[:2] for pair in found] == [(1, 0)]


@pytest.mark.parametrize(
    ("text", "n"), [("", 1), ("one", 1), ("one two", 1), ("one two three four", 2), ("a a a a a", 1)]
)
def test_shingles_of_short_texts(text, n):
    hashes = shingle_hashes(text, 3)
    assert (len(hashes), hashes.dtype) == (n, np.uint32)
    assert list(hashes) == sorted(set(hashes.tolist()))


def test_the_earliest_document_stays_across_parts_and_the_reject_names_it(store):
    chance = random.Random(4)
    text, other = " ".join(a_text(chance)), " ".join(a_text(chance))

    def row(doc_id: str, content: str) -> dict:
        return {"doc_id": doc_id, "url": f"http://example.org/{doc_id}", "text": content}

    parts = [[row("zz", text), row("mm", other)], [row("aa", text.upper()), row("bb", other + " more")]]
    put(store, DOCUMENTS, *parts, dataset="texts")
    outcome = go(store, near_duplicate_documents)
    assert [document["doc_id"] for document in rows(store, "documents")] == ["zz", "mm"]
    refused = rejects(store, "documents")
    assert refused["aa"]["detail"] == "of zz http://example.org/zz, jaccard 1.000: http://example.org/aa"
    assert "of mm http://example.org/mm" in refused["bb"]["detail"]
    assert {row["reason"] for row in refused.values()} == {"near_duplicate_document"}
    assert outcome.counters["rows_in"] == outcome.counters["rows_out"] + outcome.counters["rows_rejected"] == 4
