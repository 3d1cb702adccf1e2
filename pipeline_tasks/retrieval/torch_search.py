"""Exact search whose products graphics cards compute, by PyTorch; the same rows as of our own search.

Each card holds its share of the passages. It multiplies a block of queries with a block of passages, keeps the best so
far, and proposes these (:mod:`pipeline_tasks.retrieval.proposals`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.encoders.devices import devices_of
from pipeline_tasks.retrieval.proposals import counted, exact
from pipeline_tasks.retrieval.search import Shard

if TYPE_CHECKING:
    from torch import Tensor

QUERY_BLOCK, PASSAGE_BLOCK = 2048, 65_536
"""Half a gigabyte of products on a card at a time."""


def torch_search(
    queries: np.ndarray, shards: Sequence[Shard], k: int, devices: Sequence[str] = (), block: int = PASSAGE_BLOCK
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` best keys per query, and their scores, as of :func:`pipeline_tasks.retrieval.search.search`.

    Args:
        queries: query vectors, float32 [q, d].
        shards: vectors and keys.
        k: passages per query.
        devices: of PyTorch; none: every card of the settings, else the processor.
        block: passages per product.

    Raises:
        InputError: there are fewer than ``k`` passages.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    vectors, keys = counted(shards, k)
    with _in_float32():
        index = _OnCards(vectors, devices or devices_of("cuda") or ["cpu"], block)
        return exact(index, queries, vectors, keys, k)


class _OnCards:
    """Vectors of passages, each card with a share of them.

    Args:
        vectors: [n, d], float32.
        devices: of PyTorch, one for each share.
        block: passages per product.
    """

    def __init__(self, vectors: np.ndarray, devices: Sequence[str], block: int) -> None:
        import torch

        self._shares, self._block, at = [], block, 0
        for device, share in zip(devices, np.array_split(vectors, len(devices)), strict=True):
            self._shares.append((at, torch.from_numpy(share).to(device)))
            at += len(share)

    def search(self, queries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`pipeline_tasks.retrieval.proposals.Proposes.search`."""
        import torch

        scores, rows = np.empty((len(queries), n), np.float32), np.empty((len(queries), n), np.int64)
        for first in range(0, len(queries), QUERY_BLOCK):
            part = slice(first, first + QUERY_BLOCK)
            asked = torch.from_numpy(queries[part])
            # Work of one card goes on while the next is told its own: nothing is waited for before all have begun.
            found = [self._best(asked.to(share.device), share, at, n) for at, share in self._shares]
            of_all = [torch.cat([one.cpu() for one in both], dim=1) for both in zip(*found, strict=True)]
            best, places = of_all[0].topk(n, dim=1)
            scores[part], rows[part] = best.numpy(), of_all[1].gather(1, places).numpy()
        return scores, rows

    def _best(self, asked: Tensor, share: Tensor, at: int, n: int) -> tuple[Tensor, Tensor]:
        """Scores and rows, [q, at most n] both, of the passages of one card, the first of which is row ``at``."""
        import torch

        scores, rows = asked.new_empty((len(asked), 0)), asked.new_empty((len(asked), 0), dtype=torch.int64)
        for begin in range(0, len(share), self._block):
            products = asked @ share[begin : begin + self._block].T
            some, places = products.topk(min(n, products.shape[1]), dim=1)
            both, of_both = torch.cat([scores, some], dim=1), torch.cat([rows, places + (at + begin)], dim=1)
            scores, chosen = both.topk(min(n, both.shape[1]), dim=1)
            rows = of_both.gather(1, chosen)
        return scores, rows


@contextmanager
def _in_float32() -> Iterator[None]:
    """Products of float32 are not rounded to TF32, by which they would be farther off than is reckoned with."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
