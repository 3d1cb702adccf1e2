"""The loop under dropout: which places of a tensor are kept, by a hash of the place."""

import numpy as np

from pipeline_tasks.core.compiled import compiled


@compiled
def keep(values: np.ndarray, key: np.uint32, other: np.uint32, limit: np.uint32, scale: np.float32, made: np.ndarray):
    """Write ``values`` times ``scale`` to ``made``, and 0 where the hash of the place is below ``limit``.

    Shapes:
        values, made: [n] float32.

    Source:
        The finaliser of MurmurHash3 (A. Appleby, public domain), once with either half of the key.
    """
    for i in range(len(values)):
        h = np.uint32(i) ^ key
        h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        h = (h ^ (h >> np.uint32(16))) ^ other
        h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        h = h ^ (h >> np.uint32(16))
        made[i] = values[i] * scale if h >= limit else np.float32(0.0)
