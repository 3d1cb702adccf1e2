"""Token ids cut into batches of about equal cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


def plan_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Cut positions into batches of like length, longest first, of at most ``budget`` padded tokens or one text.

    Longest first: what does not fit into memory fails at once, and the estimate of the time left errs on the
    safe side.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    start = 0
    while start < len(order):
        size = max(1, budget // lengths[order[start]])
        yield order[start : start + size]
        start += size


def padded(tokens: Sequence[np.ndarray], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids as one matrix, padded on the right, and the mask that is 1 where a token is.

    Shapes:
        returns two [b, s], int64, where s is the longest row.
    """
    ids = np.full((len(tokens), max(len(row) for row in tokens)), pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(tokens):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask
