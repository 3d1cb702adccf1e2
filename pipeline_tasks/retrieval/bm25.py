"""BM25 over passages: the lexical baseline beside every encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.retrieval.search import select

_BLOCK = 256


class Bm25:
    """An index over passages: Lucene's BM25, k1 = 1.5, b = 0.75, English stop words out, no stemming.

    Source: Lù 2024, BM25S; the scores are those of that library.
    """

    def __init__(self, passages: Sequence[str]) -> None:
        import bm25s

        if not passages:
            raise InputError("BM25 over no passages: give at least one")
        tokens = bm25s.tokenize(list(passages), stopwords="en", return_ids=False, show_progress=False)
        self.n_passages = len(passages)
        self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        self._has_words = any(tokens)
        if self._has_words:
            self._index.index(tokens, show_progress=False)

    def scores(self, query: str) -> np.ndarray:
        """The score of every passage; 0 where it shares no word with the query.

        Shapes:
            returns [n], float32.
        """
        import bm25s

        words = bm25s.tokenize([query], stopwords="en", return_ids=False, show_progress=False)[0]
        known = [word for word in words if self._has_words and word in self._index.vocab_dict]
        if not known:
            return np.zeros(self.n_passages, np.float32)
        return np.asarray(self._index.get_scores(known), np.float32)

    def top_k(self, queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``k`` best passages of each query, best first; equal scores in the order of the passages.

        Shapes:
            returns indices [q, k], int64, and scores [q, k], float32.

        Raises:
            InputError: ``k`` is not in 1..n.
        """
        if not 1 <= k <= self.n_passages:
            raise InputError(f"k = {k} of {self.n_passages} passages: ask for between 1 and all of them")
        indices = np.empty((len(queries), k), np.int64)
        scores = np.empty((len(queries), k), np.float32)
        for start in range(0, len(queries), _BLOCK):
            block = np.stack([self.scores(query) for query in queries[start : start + _BLOCK]])
            columns = select(block, k)
            found = np.take_along_axis(block, columns, 1)
            order = np.argsort(-found, axis=1, kind="stable")
            rows = slice(start, start + len(block))
            indices[rows], scores[rows] = (
                np.take_along_axis(columns, order, 1),
                np.take_along_axis(found, order, 1),
            )
        return indices, scores


def top_k(queries: Sequence[str], passages: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` best passages of each query by BM25. See ``Bm25.top_k``."""
    return Bm25(passages).top_k(queries, k)
