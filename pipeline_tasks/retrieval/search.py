"""Exact nearest passages by cosine: the same rows whatever the block size, the threads or the order of the shards.

A matrix product in low precision is fast, but its last bits depend on the shape of the block. So it only *screens*: it
rules out what is certainly worse than the best k so far. How far the product can be off is known from the rounding of
the vectors themselves (Cauchy-Schwarz). What remains, a few passages in a thousand, is scored again in one fixed order
(:func:`pipeline_tasks.retrieval.scan_kernels.dot`), while its block is still in the cache, and enters a heap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.retrieval.side_by_side import torch_threads

if TYPE_CHECKING:
    import torch

QUERY_BLOCK = 2048
PASSAGE_BLOCK = 2048
_SORT_BLOCK = 512
_LONGEST = 1e15
_SINGLE = 2.0**-23
_SIGN = np.int32(-(2**31))
NO_KEY = np.int32(np.iinfo(np.int32).max)

Shard = tuple[np.ndarray, np.ndarray]
"""Vectors [n, d], float32, and the key of each row [n], int32: its place among ties; negative: left out."""


def top_k(
    queries: np.ndarray, passages: np.ndarray, k: int, block: int = PASSAGE_BLOCK
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` passages of highest inner product per query, best first; equal scores in corpus order.

    Inner products of unit vectors are cosines. Scores that are equal as float32 count as equal.

    Shapes:
        queries: [q, d]; passages: [n, d]; returns indices [q, k], int64, and scores [q, k], float32.

    Raises:
        InputError: ``k`` is not in 1..n, the widths differ, or a vector is not finite.
    """
    queries, passages = np.asarray(queries, np.float32), np.asarray(passages, np.float32)
    if queries.ndim != 2 or passages.ndim != 2 or queries.shape[1] != passages.shape[1]:
        raise InputError(
            f"queries {queries.shape} and passages {passages.shape} must be matrices of one width: use one model"
        )
    if not 1 <= k <= len(passages):
        raise InputError(f"k = {k} of {len(passages)} passages: ask for between 1 and all of them")
    keys, scores = search(queries, [(passages, np.arange(len(passages), dtype=np.int32))], k, block=block)
    return keys.astype(np.int64), scores


def search(
    queries: np.ndarray,
    shards: Iterable[Shard],
    k: int,
    *,
    block: int = PASSAGE_BLOCK,
    threads: int = 0,
    screen: str = "",
    progress: Callable[[int], object] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` best keys of all shards per query, best first; of equal scores (float32) the lowest key.

    At most ``2048 x block`` screened scores are held beside the vectors and the result. Where fewer than ``k``
    passages have a key, the rest of a row is the key :data:`NO_KEY` with the score -inf.

    Args:
        queries: query vectors.
        shards: vectors and keys; each shard is read once, so they may come from a file one at a time.
        k: passages per query.
        block: passages per block.
        threads: of this machine's cores; 0 for the setting.
        screen: ``float32`` or ``bfloat16``; empty for what is faster on this machine.
        progress: told how many more inner products are done.

    Shapes:
        queries: [q, d]; returns keys [q, k], int32, and scores [q, k], float32.

    Raises:
        InputError: widths differ, or a vector is not finite or too long.
    """
    threads = threads or settings().threads
    queries = _checked(queries, queries.shape[1] if queries.ndim == 2 else -1, "queries")
    kind = screen or faster_screen()
    scores = np.full((len(queries), k), -np.inf, np.float32)
    keys = np.full((len(queries), k), NO_KEY, np.int32)
    rows = [slice(at, at + QUERY_BLOCK) for at in range(0, len(queries), QUERY_BLOCK)]
    with torch_threads(threads) as pool:
        asked = [_Screened(queries[part], kind) for part in rows]
        room = _room(min(len(queries), QUERY_BLOCK), block, kind)
        for vectors, names in shards:
            vectors = _checked(vectors, queries.shape[1], "passages")
            for at in range(0, len(vectors), block):
                given, of_block = _Screened(vectors[at : at + block], kind), names[at : at + block]
                for part, ask in zip(rows, asked, strict=True):
                    _offer(pool, threads, room, ask, given, of_block, scores[part], keys[part])
                    if progress:
                        progress(len(ask.vectors) * len(given.vectors))
    _sort(keys, scores)
    return keys, scores


def merge(found: Sequence[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The best ``k`` of several searches over different shards: what one search over all of them gives.

    Shapes:
        found: keys [q, any] and scores [q, any] of each; returns keys [q, k] and scores [q, k].
    """
    keys, scores = np.hstack([keys for keys, _ in found]), np.hstack([scores for _, scores in found])
    _sort(keys, scores)
    return np.ascontiguousarray(keys[:, :k]), np.ascontiguousarray(scores[:, :k])


def slack(queries: np.ndarray, passages: np.ndarray) -> np.ndarray:
    """How far an inner product computed in float32, in whatever order, can be from the exact one.

    Shapes:
        queries [q, d], passages [n, d]; returns [q], float32.
    """
    longest = np.sqrt(np.einsum("nd,nd->n", passages, passages).max(initial=0))
    return np.float32(1.001 * queries.shape[1] * _SINGLE) * np.linalg.norm(queries, axis=1) * longest


class _Screened:
    """Vectors of one block, rounded for the screen, and how far the rounding moved them.

    Attributes:
        rounded: [n, d], in the screen's precision.
        lengths, moved: [n], float32, upper bounds of the norms of the vectors and of what rounding took away.
    """

    def __init__(self, vectors: np.ndarray, kind: str) -> None:
        import torch

        self.vectors = np.require(vectors, np.float32, ["C", "W"])
        whole = torch.from_numpy(self.vectors)
        self.rounded = whole.to(getattr(torch, kind))
        lost = (whole - self.rounded.float()) if kind != "float32" else None
        self.lengths = torch.linalg.vector_norm(whole, dim=1).numpy() * np.float32(1.0001)
        self.moved = (
            np.zeros_like(self.lengths)
            if lost is None
            else torch.linalg.vector_norm(lost, dim=1).numpy() * np.float32(1.0001)
        )

    def slack(self, other: _Screened) -> np.ndarray:
        """How far a screened score with any vector of ``other`` can be from the exact one.

        Source: |qp - q'p'| <= |q - q'||p| + |q'||p - p'|, and d * 2^-23 |q'||p'| for adding up in float32.
        """
        longest, farthest = other.lengths.max(initial=0), other.moved.max(initial=0)
        lengths = self.lengths + self.moved
        adding = np.float32(self.vectors.shape[1] * _SINGLE) * lengths * (longest + farthest)
        return (self.moved * longest + lengths * farthest + adding).astype(np.float32)

    def fuzz(self, other: _Screened) -> np.ndarray:
        """How far two sums in float64 of one inner product with any vector of ``other`` can be apart."""
        return self.vectors.shape[1] * 2.0**-51 * self.lengths.astype(np.float64) * other.lengths.max(initial=0)


def _room(n_queries: int, n_passages: int, kind: str) -> torch.Tensor:
    """Room for the screened scores of a block: the same for every block, since fresh memory costs time."""
    import torch

    return torch.empty(n_queries * n_passages, dtype=getattr(torch, kind))


def _offer(
    pool: ThreadPoolExecutor,
    threads: int,
    room: torch.Tensor,
    asked: _Screened,
    given: _Screened,
    names: np.ndarray,
    scores: np.ndarray,
    keys: np.ndarray,
) -> None:
    import torch

    from pipeline_tasks.retrieval.scan_kernels import offer

    slack, fuzz = asked.slack(given), asked.fuzz(given)
    half = given.rounded.dtype == torch.bfloat16
    screened = room[: len(asked.vectors) * len(given.vectors)].view(len(asked.vectors), len(given.vectors))

    def offer_part(part: slice) -> None:
        product = torch.mm(asked.rounded[part], given.rounded.T, out=screened[part])
        bits = product.view(torch.int16 if half else torch.int32).numpy()
        rest = (given.vectors, names, scores[part], keys[part])
        offer(bits, 16 * half, slack[part], fuzz[part], asked.vectors[part], *rest)

    step = -(-len(scores) // threads)
    list(pool.map(offer_part, (slice(at, at + step) for at in range(0, len(scores), step))))


def _sort(keys: np.ndarray, scores: np.ndarray) -> None:
    """Rows by falling score, then rising key: both in one 64-bit number, which sorts many times faster than a pair."""
    for at in range(0, len(keys), _SORT_BLOCK):
        part = slice(at, at + _SORT_BLOCK)
        bits = (scores[part] + np.float32(0)).view(np.int32)
        falling = ~np.where(bits < 0, ~bits, bits | _SIGN).view(np.uint32)
        both = falling.astype(np.uint64) << np.uint64(32) | keys[part].view(np.uint32)
        both.sort(axis=1)
        falling = (both >> np.uint64(32)).astype(np.uint32).view(np.int32)
        keys[part] = both.astype(np.uint32).view(np.int32)
        scores[part] = np.where(falling < 0, falling, ~falling & ~_SIGN).view(np.float32)


def _checked(vectors: np.ndarray, width: int, what: str) -> np.ndarray:
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise InputError(f"{what} of shape {vectors.shape}, width {width} was expected: use one model for both")
    vectors = np.asarray(vectors, np.float32)
    highest = max(vectors.max(initial=0), -vectors.min(initial=0))
    if not highest < _LONGEST:
        raise InputError(f"{what}: a vector holds NaN, infinity or a number above {_LONGEST:g}: encode again")
    return vectors


@lru_cache
def faster_screen() -> str:
    """The precision whose matrix product is faster here; search gives the same rows with both.

    Measured in processor time, which neighbours on the machine disturb least.
    """
    import torch

    block = torch.ones(1024, 384)
    seconds = {}
    for kind in ("float32", "bfloat16"):
        rounded = block.to(getattr(torch, kind))
        seconds[kind] = min(_seconds(partial(torch.matmul, rounded, rounded.T)) for _ in range(4))
    return min(seconds, key=seconds.__getitem__)


def _seconds(work: Callable[[], torch.Tensor]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def select(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the ``k`` highest scores of each row, in rising column order; of equal scores the first columns.

    Shapes:
        scores: [q, n] with n >= k; returns [q, k], int64.
    """
    n = scores.shape[1]
    least = np.partition(scores, n - k, axis=1)[:, n - k, None]
    chosen = scores >= least
    for row in np.flatnonzero(chosen.sum(axis=1) > k):
        above = scores[row] > least[row]
        tied = np.flatnonzero(scores[row] == least[row])
        chosen[row] = above
        chosen[row, tied[: k - above.sum()]] = True
    return np.nonzero(chosen)[1].reshape(len(scores), k)
