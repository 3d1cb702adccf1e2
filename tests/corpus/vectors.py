"""Unit vectors with planted near-duplicates, and the truth about them from all pairs in float64."""

from __future__ import annotations

import numpy as np


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1, as an encoder gives them."""
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def planted(n: int, seed: int, d: int = 64, topics: int = 6, low: float = 0.8) -> np.ndarray:
    """Directions around a few topics, with later neighbours at cosines from ``low`` to 1, chains and exact copies."""
    rng = np.random.default_rng(seed)
    originals = unit(rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(topics, d))[rng.integers(0, topics, n)])
    near = originals[rng.integers(0, n, n // 2)]
    chained = np.vstack([near, _turned(rng, near, low)])
    copies = originals[rng.integers(0, n, n // 20)]
    vectors = np.vstack([originals, _turned(rng, chained, low), copies])
    return vectors[rng.permutation(len(vectors))]


def _turned(rng: np.random.Generator, vectors: np.ndarray, low: float) -> np.ndarray:
    cosine = rng.uniform(low, 1.0, (len(vectors), 1))
    noise = unit(rng.normal(size=vectors.shape))
    noise = unit(noise - (noise * vectors).sum(axis=1, keepdims=True) * vectors)
    return unit(cosine * vectors + np.sqrt(1 - cosine**2) * noise)


def brute_pairs(vectors: np.ndarray, threshold: float) -> dict[tuple[int, int], float]:
    """(later, earlier) -> cosine of all pairs above ``threshold``."""
    wide = vectors.astype(np.float64)
    cosines = np.tril(wide @ wide.T, -1)
    return {(int(i), int(j)): float(cosines[i, j]) for i, j in np.argwhere(cosines > threshold)}


def brute_representatives(vectors: np.ndarray, threshold: float) -> list[int]:
    """Of every row itself if it stays, else the earlier row that stayed and is most like it."""
    wide = vectors.astype(np.float64)
    found: list[int] = []
    for row in range(len(wide)):
        standing = [i for i in range(row) if found[i] == i]
        cosines = wide[standing] @ wide[row] if standing else np.zeros(0)
        alike = len(standing) > 0 and cosines.max() > threshold
        best = int((cosines >= cosines.max() - 1e-12).argmax()) if alike else 0
        found.append(standing[best] if alike else row)
    return found
