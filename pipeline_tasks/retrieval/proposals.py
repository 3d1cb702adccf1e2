"""Search in which another library proposes: what it proposes is scored again, so that scores and ties are always ours.

Scores are those of :func:`pipeline_tasks.retrieval.scan_kernels.dot`, added up in one fixed order, whoever searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.side_by_side import numpy_threads
from pipeline_tasks.retrieval.screen import slack
from pipeline_tasks.retrieval.search import NO_KEY, Shard, merge

_MORE = 64


@dataclass(frozen=True)
class Found:
    """What was found, and how good it is.

    Attributes:
        keys: [q, k], int32, as of :func:`pipeline_tasks.retrieval.search.search`.
        scores: [q, k], float32.
        recall: share of the true best k that was found, mean over the sample; 1 for exact search.
        n_sampled: queries on which that was measured.
        effort: lists probed (ivf) or candidates kept (hnsw) to get there; 0 for exact search.
    """

    keys: np.ndarray
    scores: np.ndarray
    recall: float
    n_sampled: int
    effort: int


class Proposes(Protocol):
    """What knows the vectors of a corpus; FAISS's indexes are of this kind."""

    def search(self, queries: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``n`` best inner products of each query in float32, best first, and their rows; -1 where there is none.

        Shapes:
            queries [q, d]; returns [q, n], float32, and [q, n], int64.
        """


def counted(shards: Sequence[Shard], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The vectors that have a key, copied one after the other, and these keys.

    Raises:
        InputError: there are fewer than ``k``.
    """
    kept = [names >= 0 for _, names in shards]
    vectors = np.concatenate([v[mask] for (v, _), mask in zip(shards, kept, strict=True)])
    keys = np.concatenate([names[mask] for (_, names), mask in zip(shards, kept, strict=True)])
    if k > len(keys):
        raise InputError(f"k = {k} of {len(keys)} passages: ask for at most all of them")
    return vectors, keys


def exact(index: Proposes, queries: np.ndarray, vectors: np.ndarray, keys: np.ndarray, k: int) -> Found:
    """The best ``k``: more is asked for until nothing that was left out can belong to them.

    The products of ``index`` may be added up in any order, but in float32.
    """
    found = np.full((len(queries), k), NO_KEY, np.int32), np.full((len(queries), k), -np.inf, np.float32)
    left, asked, room = np.arange(len(queries)), min(k + _MORE, len(keys)), slack(queries, vectors)
    while len(left):
        screened, at = index.search(queries[left], asked)
        some_keys, scores = merge([scored(at, queries[left], vectors, keys)], k)
        found[0][left], found[1][left] = some_keys, scores
        if asked == len(keys):
            break
        left = left[scores[:, -1] <= screened[:, -1] + room[left]]
        asked = min(4 * asked, len(keys))
    return Found(*found, 1.0, len(queries), 0)


def scored(at: np.ndarray, queries: np.ndarray, vectors: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys and exact scores of the rows ``at``, best first.

    Shapes:
        at [q, m], int64; queries [q, d]; vectors [n, d]; keys [n]; returns [q, m] both.
    """
    from pipeline_tasks.retrieval.scan_kernels import dots

    threads = settings().threads
    step = -(-len(at) // threads) or 1
    parts = [slice(first, first + step) for first in range(0, len(at), step)]
    with numpy_threads(threads) as pool:
        found = list(pool.map(lambda part: dots(queries[part], vectors, at[part]), parts))
    scores = np.concatenate(found) if found else np.empty(at.shape, np.float32)
    return merge([(np.where(at >= 0, keys[at], NO_KEY), scores)], at.shape[1])
