"""Search in which another library proposes: what it proposes is scored again, so that scores and ties are always ours.

Scores are those of :func:`pipeline_tasks.retrieval.scan_kernels.dot`, added up in one fixed order, whoever searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.retrieval.screen import slack
from pipeline_tasks.retrieval.search import NO_KEY, Shard, merge

_MORE = 64


class Proposes(Protocol):
    """What knows the vectors of a corpus; FAISS's indexes are of this kind."""

    def search(self, queries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``n`` best inner products of each query in float32, best first, and their rows; -1 where there is none.

        Shapes:
            queries [q, d]; returns [q, n], float32, and [q, n], int64.
        """


def counted(shards: Sequence[Shard], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The vectors that have a key, one after the other, and these keys; copied, unless that is one whole shard.

    Raises:
        InputError: there are fewer than ``k``.
    """
    whole = [(v, names) if (names >= 0).all() else (v[names >= 0], names[names >= 0]) for v, names in shards]
    vectors, keys = whole[0] if len(whole) == 1 else map(np.concatenate, zip(*whole, strict=True))
    if k > len(keys):
        raise InputError(f"k = {k} of {len(keys)} passages: ask for at most all of them")
    return vectors, keys


def exact(
    index: Proposes, queries: np.ndarray, vectors: np.ndarray, keys: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The best ``k``: more is asked for until nothing that was left out can belong to them.

    The products of ``index`` may be added up in any order, but in float32.

    Shapes:
        queries [q, d]; vectors [n, d]; keys [n]; returns keys [q, k], int32, and scores [q, k], float32.
    """
    found = np.full((len(queries), k), NO_KEY, np.int32), np.full((len(queries), k), -np.inf, np.float32)
    left, asked, room = np.arange(len(queries)), min(k + _MORE, len(keys)), slack(queries, vectors)
    while len(left):
        screened, at = index.search(queries[left], asked)
        some_keys, scores = (best[:, :k] for best in scored(at, queries[left], vectors, keys))
        found[0][left], found[1][left] = some_keys, scores
        if asked == len(keys):
            break
        left = left[scores[:, -1] <= screened[:, -1] + room[left]]
        asked = min(4 * asked, len(keys))
    return found


def scored(at: np.ndarray, queries: np.ndarray, vectors: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys and exact scores of the rows ``at``, best first.

    Shapes:
        at [q, m], int64; queries [q, d]; vectors [n, d]; keys [n]; returns [q, m] both.
    """
    from pipeline_tasks.retrieval.scan_kernels import dots

    threads = settings().threads
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(
            lambda q, of_q: dots(q, vectors, of_q), np.array_split(queries, threads), np.array_split(at, threads)
        )
        scores = np.concatenate(list(parts))
    return merge([(np.where(at >= 0, keys[at], NO_KEY), scores)], at.shape[1])
