from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.near_duplicate_passages import duplicates, near_duplicate_passages
from pipeline_tasks.datasets import PASSAGE_EMBEDDINGS, PASSAGES
from tests.stores import bare_run, go, put, reasons, rejects, rows

EMBEDDINGS = "embeddings/all-minilm-l6-v2"


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def planted(n: int, seed: int) -> np.ndarray:
    """Random directions, and for every other one a later neighbour at a cosine between 0.8 and 1."""
    rng = np.random.default_rng(seed)
    originals = unit(rng.normal(size=(n, 64)))
    noise = unit(rng.normal(size=(n // 2, 64)))
    cosines = rng.uniform(0.8, 1.0, (n // 2, 1))
    vectors = np.vstack([originals, cosines * originals[::2] + np.sqrt(1 - cosines**2) * noise])
    return unit(vectors)[rng.permutation(len(vectors))]


def brute(vectors: np.ndarray, threshold: float) -> dict[int, int]:
    """Row -> the earlier row that stayed and is most like it, from all pairs in float64."""
    wide = vectors.astype(np.float64)
    removed: dict[int, int] = {}
    for row in range(len(wide)):
        earlier = [i for i in range(row) if i not in removed]
        cosines = wide[earlier] @ wide[row] if earlier else np.zeros(0)
        if len(cosines) and cosines.max() > threshold:
            removed[row] = earlier[int(cosines.argmax())]
    return removed


@pytest.mark.parametrize(("n", "threshold"), [(400, 0.9), (400, 0.85), (900, 0.95)])
def test_finds_what_all_pairs_find(n, threshold, tmp_path):
    vectors = planted(n, seed=n)
    found = {
        row: (other, cosine) for row, other, cosine in duplicates(vectors, threshold, bare_run(LocalStore(tmp_path)))
    }
    expected = brute(vectors, threshold)
    assert {row: other for row, (other, _) in found.items()} == expected
    assert 20 < len(expected) < n // 2
    for row, (other, cosine) in found.items():
        assert cosine == pytest.approx(float(vectors[row] @ vectors[other]), abs=1e-5)


def test_a_chain_is_not_merged(tmp_path):
    """Three directions 20 degrees apart: cosine 0.94 to the next, 0.77 to the one after."""
    angles = np.radians([0, 20, 40])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = list(duplicates(vectors, 0.9, bare_run(LocalStore(tmp_path))))
    assert [(row, other) for row, other, _ in found] == [(1, 0)]


def build(store: LocalStore, vectors: np.ndarray, ids: list[str], embedded: list[str]) -> None:
    passages = [{"passage_id": i, "doc_id": "d", "text": i} for i in ids]
    put(store, PASSAGES, passages[:2], passages[2:], dataset="chunks")
    table = [{"passage_id": i, "doc_id": "d", "embedding": v.tolist()} for i, v in zip(embedded, vectors, strict=True)]
    put(store, PASSAGE_EMBEDDINGS, table[:2], table[2:], dataset=EMBEDDINGS)


def test_the_earliest_passage_stays_and_the_reject_names_it(store):
    vectors = unit(np.array([[1, 0, 0], [0, 1, 0], [1, 0.01, 0], [0, 0, 1], [0, 1, 0]]))
    build(store, vectors, [*"zyxwv"], [*"zyxwv"])
    outcome = go(store, near_duplicate_passages)
    assert [row["passage_id"] for row in rows(store, "passages")] == ["z", "y", "w"]
    assert reasons(store, "passages") == {"near_duplicate_passage": 2}
    assert {key: row["detail"] for key, row in rejects(store, "passages").items()} == {
        "x": "of z, cosine 1.000",
        "v": "of y, cosine 1.000",
    }
    assert outcome.counters["rows_out"] == 3


@pytest.mark.parametrize("embedded", [["a", "b", "c", "e"], ["b", "a", "c", "d"]], ids=["another", "another order"])
def test_embeddings_of_other_passages_are_refused(store, embedded):
    build(store, unit(np.eye(4)), ["a", "b", "c", "d"], embedded)
    with pytest.raises(InputError, match="not of these passages"):
        go(store, near_duplicate_passages)


def test_no_passages_have_no_duplicates(store):
    put(store, PASSAGES, [], dataset="chunks")
    put(store, PASSAGE_EMBEDDINGS, [], dataset=EMBEDDINGS)
    assert go(store, near_duplicate_passages).counters["rows_out"] == 0
