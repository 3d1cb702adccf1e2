"""Exact nearest passages by cosine: the same rows whatever the block size, the threads or the order of the shards.

A matrix product in low precision is fast, but its last bits depend on the shape of the block. So it only *screens*: it
rules out what is certainly worse than the best k. How far the product can be off is known from the rounding of the
vectors themselves (Cauchy-Schwarz). Candidates are kept with their screened scores until the shard is through, while
what the k-th best reaches at least keeps rising. Those that are left, hardly more than k, are scored in one fixed order
(:func:`pipeline_tasks.retrieval.scan_kernels.dot`) and enter a heap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.side_by_side import numpy_threads, torch_threads
from pipeline_tasks.retrieval.screen import SHIFT, Kind, Screened, faster_screen, frozen, product, room_for

if TYPE_CHECKING:
    from pipeline_tasks.retrieval.scan_kernels import Best, ShardPassages

QUERY_BLOCK = 1024
PASSAGE_BLOCK = 2048
_AT_ONCE = 8192
_LEAST = 32
_CANDIDATES, _MORE = 3, 64
# Below so many multiplications, handing work to other threads takes longer than doing it.
_ONE_THREAD = 2**25
NO_KEY = np.int32(np.iinfo(np.int32).max)

Shard = tuple[np.ndarray, np.ndarray]
"""Vectors [n, d], float32, and the key of each row [n], int32: its place among ties; negative: left out."""


def top_k(queries: np.ndarray, passages: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
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
    keys, scores = search(queries, [(passages, np.arange(len(passages), dtype=np.int32))], k)
    return keys.astype(np.int64), scores


def search(
    queries: np.ndarray,
    shards: Sequence[Shard],
    k: int,
    *,
    block: int = PASSAGE_BLOCK,
    threads: int = 0,
    screen: Kind | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` best keys of all shards per query, best first; of equal scores (float32) the lowest key.

    Beside the vectors and the result there are ``3 k + 64`` candidates per query, the rounded vectors of the queries
    and of 8,192 passages, and per thread ``1024 x block`` screened scores. Where fewer than ``k`` passages have a key,
    the rest of a row is the key :data:`NO_KEY` with the score -inf.

    Args:
        queries: query vectors.
        shards: vectors and keys.
        k: passages per query.
        block: passages per block.
        threads: of this machine's cores; 0 for the setting.
        screen: precision of the product; none for the one that costs less here.

    Shapes:
        queries: [q, d]; returns keys [q, k], int32, and scores [q, k], float32.

    Raises:
        InputError: widths differ, or a vector is not finite or too long.
    """
    width = queries.shape[-1]
    for vectors, what in ((queries, "queries"), *((vectors, "passages") for vectors, _ in shards)):
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise InputError(f"{what} of shape {vectors.shape}, width {width} was expected: use one model for both")
    n_multiplied = queries.size * sum(len(vectors) for vectors, _ in shards)
    kind = screen or faster_screen(n_multiplied)
    threads = 1 if n_multiplied < _ONE_THREAD else threads or settings().threads
    with (torch_threads if kind == "bfloat16" else numpy_threads)(threads) as pool:
        found = _SearchState(queries, k, block, kind, threads, pool)
        for vectors, keys in shards:
            found.search(vectors, keys)
        return found.result()


class _SearchState:
    """What one search has found so far, and the room that its blocks share.

    A worker takes some of the queries through several blocks, so that workers seldom wait for each other.
    """

    def __init__(
        self, queries: np.ndarray, k: int, block: int, kind: Kind, threads: int, pool: ThreadPoolExecutor
    ) -> None:
        from pipeline_tasks.retrieval.scan_kernels import Best

        q, width = queries.shape
        self._block, self._kind, self._threads, self._pool = block, kind, threads, pool
        self._queries = Screened(queries, kind, "queries")
        self._each(self._queries.fill, q)
        self._rounded = np.empty((max(block, _AT_ONCE // block * block), width), np.int16)
        self._products: SimpleQueue[np.ndarray] = SimpleQueue()
        for _ in range(threads):
            self._products.put(room_for(kind, min(q, QUERY_BLOCK) * block))
        candidates = np.empty((2, q, _CANDIDATES * k + _MORE), np.int32)
        self._best = Best(
            scored=np.full((q, k), _NOTHING),
            least=np.full(q, -np.inf, np.float32),
            screened=candidates[0],
            rows=candidates[1],
            n=np.zeros(q, np.int32),
        )

    def search(self, vectors: np.ndarray, keys: np.ndarray) -> None:
        """Search one shard."""
        from pipeline_tasks.retrieval.scan_kernels import ShardPassages

        given, longest, farthest = ShardPassages(frozen(vectors), frozen(keys)), np.float32(0), np.float32(0)
        for first in range(0, len(vectors), len(self._rounded)):
            some = Screened(given.vectors[first : first + len(self._rounded)], self._kind, "passages", self._rounded)
            self._each(some.fill, len(some.vectors))
            longest, farthest = max(longest, some.lengths.max()), max(farthest, some.moved.max())
            self._offer(some, first, given, longest, farthest)
        self._settle(given, longest, farthest)

    def _offer(
        self, some: Screened, first: int, given: ShardPassages, longest: np.float32, farthest: np.float32
    ) -> None:
        from pipeline_tasks.retrieval.scan_kernels import begin, offer

        def work(part: slice) -> None:
            room, best = self._products.get(), _of(self._best, part)
            asked = self._queries.as_queries(part, longest, farthest)
            for at in range(0, len(some.vectors), self._block):
                bits = product(self._queries.rounded[part], some.rounded[at : at + self._block], room)
                if first + at == 0:
                    begin(self._kth(bits, given.keys[: bits.shape[1]]), SHIFT[self._kind], asked, best)
                offer(bits, SHIFT[self._kind], first + at, asked, given, best)
            self._products.put(room)

        self._each(work, len(self._queries.vectors), QUERY_BLOCK)

    def _settle(self, given: ShardPassages, longest: np.float32, farthest: np.float32) -> None:
        from pipeline_tasks.retrieval.scan_kernels import settle

        def work(part: slice) -> None:
            settle(SHIFT[self._kind], self._queries.as_queries(part, longest, farthest), given, _of(self._best, part))

        self._each(work, len(self._queries.vectors))

    def _kth(self, bits: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Of each query's screened scores with a key the k-th highest, as bits; -1 where there are too few."""
        k, counted = self._best.scored.shape[1], keys >= 0
        n = np.count_nonzero(counted)
        if n < k:
            return np.full(len(bits), -1, bits.dtype)
        return np.partition(bits if n == len(keys) else bits[:, counted], n - k, axis=1)[:, n - k]

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and scores, best first."""
        self._each(lambda part: self._best.scored[part].sort(axis=1), len(self._best.scored))
        return _unpacked(self._best.scored)

    def _each(self, work: Callable[[slice], object], n: int, most: int = 2**31) -> None:
        """``work`` on every part of ``n`` rows, as many at a time as there are threads."""
        step = max(_LEAST, min(most, -(-n // self._threads)))
        run = self._pool.map if self._threads > 1 else map
        list(run(work, (slice(at, at + step) for at in range(0, n, step))))


def _of(best: Best, part: slice) -> Best:
    return type(best)(*(array[part] for array in best))


def merge(found: Sequence[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The best ``k`` of several searches over different shards: what one search over all of them gives.

    Shapes:
        found: keys [q, any] and scores [q, any] of each; returns keys [q, k] and scores [q, k].
    """
    both = np.hstack([_packed(keys, scores) for keys, scores in found])
    both.sort(axis=1)
    return _unpacked(both[:, :k])


def _packed(keys: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Score and key in one number, the best first: numbers of 64 bits are sorted many times faster than pairs."""
    bits = (scores + np.float32(0)).view(np.int32)
    return ~_places(bits).astype(np.int64) << 32 | keys


def _unpacked(both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return both.astype(np.int32), _places(~(both >> 32).astype(np.int32)).view(np.float32)


def _places(bits: np.ndarray) -> np.ndarray:
    """Bits of floats as whole numbers that order as the floats do; of such numbers, the bits."""
    return bits ^ (bits >> 31 & np.int32(2**31 - 1))


_NOTHING = _packed(np.array(NO_KEY), np.array(-np.inf, np.float32))[()]
