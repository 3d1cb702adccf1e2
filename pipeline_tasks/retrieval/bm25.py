"""BM25 over passages: the lexical ranker beside every encoder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings

_BLOCK = 1024


class Found(NamedTuple):
    """Passages by place, best first, and the score of each query's passage of interest.

    Shapes:
        indices [q, k], int64; scores [q, k], float32; own_scores [q], float32.
    """

    indices: np.ndarray
    scores: np.ndarray
    own_scores: np.ndarray


class Bm25:
    """An index over passages: Lucene's BM25, English stop words out, no stemming.

    The library makes the index and its scores; the search over it is ours, so that equal scores go by place.

    Args:
        passages: their texts.
        k1: how slowly a word's score levels off as it comes again in a passage.
        b: how much a long passage's words count less: 0 not at all, 1 by its full length.

    Source: Lù 2024, BM25S.
    """

    def __init__(self, passages: Sequence[str], k1: float = 1.5, b: float = 0.75) -> None:
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # its own default is to tell everybody all that it does
        if not passages:
            raise InputError("BM25 over no passages: give at least one")
        tokens = bm25s.tokenize(list(passages), stopwords="en", return_ids=False, show_progress=False)
        self.n_passages = len(passages)
        self._words: dict[str, int] = {}
        self._weights, self._places = np.zeros(0, np.float32), np.zeros(0, np.int32)
        self._begins = np.zeros(1, np.int64)
        if any(tokens):
            index = bm25s.BM25(method="lucene", k1=k1, b=b)
            index.index(tokens, create_empty_token=False, show_progress=False)
            self._words = index.vocab_dict
            self._weights, self._places = index.scores["data"], index.scores["indices"]
            self._begins = np.asarray(index.scores["indptr"], np.int64)

    def scores(self, query: str) -> np.ndarray:
        """The score of every passage; 0 where it shares no word with the query.

        Shapes:
            returns [n], float32.
        """
        found = self.search([query], self.n_passages)
        scores = np.empty(self.n_passages, np.float32)
        scores[found.indices[0]] = found.scores[0]
        return scores

    def search(self, queries: Sequence[str], k: int, own: np.ndarray | None = None) -> Found:
        """The ``k`` best passages of each query; equal scores in the order of the passages.

        Args:
            queries: texts.
            k: passages of each.
            own: place of one passage per query whose score is wanted wherever it ranks, [q]; negative for none.

        Raises:
            InputError: ``k`` is not in 1..n.
        """
        from pipeline_tasks.retrieval.bm25_kernels import search_words

        if not 1 <= k <= self.n_passages:
            raise InputError(f"k = {k} of {self.n_passages} passages: ask for between 1 and all of them")
        words = self._known(queries)
        own = np.full(len(queries), -1, np.int64) if own is None else np.asarray(own, np.int64)
        found = Found(
            np.empty((len(queries), k), np.int64),
            np.empty((len(queries), k), np.float32),
            np.full(len(queries), np.nan, np.float32),
        )

        def search_block(at: int) -> None:
            rows = slice(at, at + _BLOCK)
            block = words[rows]
            starts = np.cumsum([0, *map(len, block)])
            flat = np.fromiter((word for query in block for word in query), np.int32, starts[-1])
            totals = np.empty(self.n_passages, np.float32)
            index = (self._weights, self._places, self._begins)
            search_words(flat, starts, *index, own[rows], totals, *(part[rows] for part in found))

        with ThreadPoolExecutor(settings().threads) as pool:
            list(pool.map(search_block, range(0, len(queries), _BLOCK)))
        return found

    def _known(self, queries: Sequence[str]) -> list[list[int]]:
        import bm25s

        texts = bm25s.tokenize(list(queries), stopwords="en", return_ids=False, show_progress=False) if queries else []
        return [[self._words[word] for word in words if word in self._words] for words in texts]


def top_k(queries: Sequence[str], passages: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` best passages of each query by BM25, as indices and scores [q, k]. See ``Bm25.search``."""
    found = Bm25(passages).search(queries, k)
    return found.indices, found.scores
