from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.corpus import all_pairs
from pipeline_tasks.corpus.all_pairs import AllPairs, cosine_of, short_forms
from tests.corpus.vectors import brute_pairs, planted, unit

DIGEST = """
import hashlib, numpy as np
from pipeline_tasks.corpus.all_pairs import AllPairs
from tests.corpus.vectors import planted
vectors = planted(1500, seed=3, d=96)
rows = np.arange(len(vectors))
print(hashlib.sha256(b"".join(a.tobytes() for a in AllPairs(vectors, 0.85).above(rows, rows))).hexdigest())
"""


def found(vectors: np.ndarray, threshold: float) -> dict[tuple[int, int], float]:
    rows = np.arange(len(vectors))
    i, j, cosine = AllPairs(vectors, threshold).above(rows, rows)
    pairs = dict(zip(zip(i.tolist(), j.tolist(), strict=True), cosine.tolist(), strict=True))
    assert len(pairs) == len(i), "no pair is found twice"
    return pairs


@pytest.mark.parametrize(
    ("n", "d", "threshold"),
    [(300, 64, 0.9), (1500, 64, 0.85), (1500, 384, 0.95), (700, 8, 0.97), (400, 3, 0.999), (50, 2, 0.9999)],
)
def test_finds_exactly_the_pairs_above_the_threshold(n, d, threshold):
    vectors = planted(n, seed=n + d, d=d)
    expected = brute_pairs(vectors, threshold)
    assert len(expected) > n // 20
    pairs = found(vectors, threshold)
    assert pairs.keys() == expected.keys()
    assert all(abs(pairs[pair] - min(1.0, expected[pair])) < 1e-12 for pair in expected)


@pytest.mark.parametrize("tile", [(1, 1), (7, 64), (512, 33)])
def test_tiles_have_no_say_in_any_bit(tile, monkeypatch):
    vectors = planted(120, seed=1)
    whole = found(vectors, 0.85)
    monkeypatch.setattr(all_pairs, "_TILE_ROWS", tile[0])
    monkeypatch.setattr(all_pairs, "_TILE_COLUMNS", tile[1])
    monkeypatch.setattr(all_pairs, "_CHECK_PAIRS", 5)
    assert found(vectors, 0.85) == whole


def test_threads_have_no_say_in_any_bit():
    root = Path(__file__).parents[2]

    def digest(threads: str) -> str:
        environment = {"FOUNDRY_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", DIGEST]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=root).stdout

    assert digest("1") == digest("2") != ""


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_never_below_the_cosine(seed, monkeypatch):
    """Also where the first coordinates hold nothing, or all, of the vectors."""
    monkeypatch.setattr(all_pairs, "_CHECK_COST", 0)
    rng = np.random.default_rng(seed)
    flat = unit(np.pad(rng.normal(size=(200, 10)), ((0, 0), (0, 90))))
    spread, equal = unit(rng.normal(size=(200, 100))), np.repeat(flat[:1], 50, axis=0)
    for vectors in (planted(200, seed, d=100), spread, flat, equal):
        short = short_forms(vectors, 0.9)
        assert short.shape[1] == 17
        wide = vectors.astype(np.float64)
        assert (short @ short.T >= wide @ wide.T).all()


def test_the_width_follows_the_vectors():
    """Ten dimensions filled need ten columns; where all pairs are just below the threshold nothing short helps."""
    rng = np.random.default_rng(0)
    flat = unit(np.pad(rng.normal(size=(3000, 10)), ((0, 0), (0, 90))))
    assert short_forms(flat, 0.9).shape[1] == 17
    alike = unit(np.ones((3000, 100)) + 0.38 * rng.normal(size=(3000, 100)))
    assert short_forms(alike, 0.9).shape[1] == 101


def test_equal_vectors_and_cosines_at_the_threshold():
    """3-4-5 triangles are exact in binary: 0.5 is not above 0.5, and equal vectors are not above 1."""
    half = np.array([[1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5], [1, 0, 0, 0]], np.float32)
    assert found(half, 0.5) == {(2, 0): 1.0}
    assert found(half, np.nextafter(0.5, 0)) == {(1, 0): 0.5, (2, 0): 1.0, (2, 1): 0.5}
    assert found(half, 1.0) == {}
    assert cosine_of(np.full((1, 3), 0.6, np.float32), np.full((1, 3), 0.6, np.float32)).tolist() == [1.0]


def test_work_is_bounded_by_rows_and_columns_asked_for():
    vectors = planted(400, seed=5)
    pairs = AllPairs(vectors, 0.9)
    rows = np.arange(len(vectors) - 10, len(vectors))
    i, j, _ = pairs.above(rows, np.arange(len(vectors)))
    assert pairs.screened <= 10 * len(vectors)
    expected = {(a, b) for a, b in brute_pairs(vectors, 0.9) if a >= rows[0]}
    assert expected == set(zip(i.tolist(), j.tolist(), strict=True))
    assert [part.size for part in pairs.above(rows, rows[:0])] == [0, 0, 0]
