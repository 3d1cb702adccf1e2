"""Token ids cut into batches of about equal cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batches_by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
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
