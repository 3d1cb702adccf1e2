"""What reference models agree on: a pure rule over the numbers of their best passages."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

Strategy = Literal["mutual", "identical", "consistency", "none"]
NOBODY = -1
"""In place of a passage or a model: there is none."""


class TopPassages(NamedTuple):
    """Of each query and reference model the top passages (hash of id, score) and the rank of the query's own positive.

    Models are in the order of the query's panel, best first.

    Attributes:
        hashes: of the ids of the best N passages of each model, [q, m, N], uint64.
        n: how many of them there are, [q, m], int32.
        scores: their scores, [q, m, N], float32; NaN beyond.
        own_rank: rank of the query's own positive, 1-based; 0 where it is not ranked or not looked for, [q, m], int32.
        own_score: its score, [q, m], float32; NaN where nobody knows.
        seen: whether the model's ranking of the query was read, [q, m].
    """

    hashes: np.ndarray
    n: np.ndarray
    scores: np.ndarray
    own_rank: np.ndarray
    own_score: np.ndarray
    seen: np.ndarray

    @classmethod
    def empty(cls, n_queries: int, n_models: int, top_n: int) -> TopPassages:
        """Nothing read yet."""
        tops, each = (n_queries, n_models, top_n), (n_queries, n_models)
        return cls(
            np.zeros(tops, np.uint64),
            np.zeros(each, np.int32),
            np.full(tops, np.nan, np.float32),
            np.zeros(each, np.int32),
            np.full(each, np.nan, np.float32),
            np.zeros(each, bool),
        )

    @property
    def there(self) -> np.ndarray:
        """Whether there is a passage, [q, m, N]."""
        return np.arange(self.hashes.shape[2]) < self.n[:, :, None]

    def votes(self, numbers: np.ndarray) -> Votes:
        """The same with a number for each passage that is there.

        Shapes:
            numbers [passages], in the order of ``hashes[there]``.
        """
        codes = np.full(self.hashes.shape, NOBODY, np.int32)
        codes[self.there] = numbers
        return Votes(codes, self.scores, self.own_rank, self.own_score, self.seen)


class Votes(NamedTuple):
    """The same by numbers of passages.

    Attributes:
        codes: numbers of the best N passages of each model, [q, m, N], int32; :data:`NOBODY` where there are fewer.
        scores, own_rank, own_score, seen: as in :class:`TopPassages`.
    """

    codes: np.ndarray
    scores: np.ndarray
    own_rank: np.ndarray
    own_score: np.ndarray
    seen: np.ndarray


def agreed(codes: np.ndarray, judges: np.ndarray, own: np.ndarray, strategy: Strategy) -> np.ndarray:
    """The positive of each query, or :data:`NOBODY` where the models do not agree on one.

    - ``mutual``: the best model's first passage among those that are in the top N of all models.
    - ``identical``: the best model's first passage, where all models have the same top N in any order.
    - ``consistency``: the query's own positive, where the best model has it in its top N.
    - ``none``: the query's own positive.

    Shapes:
        codes [q, m, N], best model first; judges [q, m], bool: which of them have a say; own [q]; returns [q], int32.

    Source: DMRetriever, Algorithm 3 lines 2 to 8 (mutual), section 3.4.2 (identical), appendix J (consistency).
    """
    if strategy == "none":
        return own
    best = codes[:, 0]
    if strategy == "consistency":
        return np.where((best == own[:, None]).any(axis=1), own, NOBODY)
    shared = best != NOBODY
    for seat in range(1, codes.shape[1]):
        shared &= (best[:, :, None] == codes[:, seat, None, :]).any(axis=2) | ~judges[:, seat, None]
    if strategy == "identical":
        shared &= (shared | (best == NOBODY)).all(axis=1, keepdims=True)
        for seat in range(1, codes.shape[1]):  # nor has another model a passage that the best has not
            other = codes[:, seat]
            among = (other[:, :, None] == best[:, None, :]).any(axis=2) | (other == NOBODY)
            shared &= among.all(axis=1, keepdims=True) | ~judges[:, seat, None]
    first = np.take_along_axis(best, shared.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.where(shared.any(axis=1), first, NOBODY)


def placed(votes: Votes, positive: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rank and score that each model gives the positive.

    Shapes:
        positive, own [q]; returns ranks [q, m], int32, 0 where unknown, and scores [q, m], float32, NaN where unknown.
    """
    there = votes.codes == positive[:, None, None]
    at = there.argmax(axis=2)
    in_top = there.any(axis=2) & (positive != NOBODY)[:, None]
    scores = np.take_along_axis(votes.scores, at[:, :, None], axis=2)[:, :, 0]
    is_own = (positive == own)[:, None]
    ranks = np.where(in_top, at + 1, np.where(is_own, votes.own_rank, 0)).astype(np.int32)
    return ranks, np.where(in_top, scores, np.where(is_own, votes.own_score, np.nan)).astype(np.float32)
