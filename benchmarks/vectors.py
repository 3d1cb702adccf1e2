"""Seeded unit vectors with clusters, as embeddings of passages have them."""

from __future__ import annotations

import numpy as np

DIM = 384


def unit_vectors(n: int, seed: int, n_clusters: int = 0, dim: int = DIM) -> np.ndarray:
    """Random directions, or, with clusters, directions around ``n_clusters`` centres that do not depend on ``seed``.

    Shapes:
        returns [n, dim], float32.
    """
    chance = np.random.default_rng(seed)
    found = chance.standard_normal((n, dim), dtype=np.float32)
    if n_clusters:
        centres = np.random.default_rng(7).standard_normal((n_clusters, dim), dtype=np.float32)
        for at in range(0, n, 65_536):
            found[at : at + 65_536] += centres[chance.integers(0, n_clusters, len(found[at : at + 65_536]))]
    for at in range(0, n, 65_536):
        found[at : at + 65_536] /= np.linalg.norm(found[at : at + 65_536], axis=1, keepdims=True)
    return found
