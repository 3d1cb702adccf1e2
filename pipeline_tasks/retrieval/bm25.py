"""BM25 over passages: the lexical ranker beside every encoder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import offsets
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.texts.words import tokenized

_BLOCK = 1024


class Hits(NamedTuple):
    """Passages by place, best first, and the score of each query's passage of interest.

    Shapes:
        indices [q, k], int64; scores [q, k], float32; own_scores [q], float32.
    """

    indices: np.ndarray
    scores: np.ndarray
    own_scores: np.ndarray


class Postings(NamedTuple):
    """Which passages hold which words, and how often; English stop words are left out, nothing is stemmed.

    Shapes:
        words [w], distinct; word i is in the passages places[begins[i] : begins[i + 1]], as often as counts say;
        lengths [n]: words of each passage.
    """

    words: pa.Array
    begins: np.ndarray
    places: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    @property
    def frequencies(self) -> np.ndarray:
        """Passages that hold each word, [w]."""
        return np.diff(self.begins)


def count_words(passages: Sequence[str]) -> Postings:
    """The postings of ``passages``."""
    vocabulary: dict[str, int] = {}
    found, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for at in range(0, len(passages), _BLOCK):
        words, texts = tokenized(passages[at : at + _BLOCK])
        places = np.array([vocabulary.setdefault(word, len(vocabulary)) for word in words], np.int32)
        found.append(places[np.fromiter(chain.from_iterable(texts), np.int32)])
        lengths.append(np.array([len(text) for text in texts], np.int32))
    length = np.concatenate(lengths)
    pairs = np.concatenate(found).astype(np.int64) * len(passages) + np.repeat(np.arange(len(passages)), length)
    pairs, counts = np.unique(pairs, return_counts=True)
    word, place = np.divmod(pairs, max(1, len(passages)))
    begins = np.searchsorted(word, np.arange(len(vocabulary) + 1))
    return Postings(
        pa.array(list(vocabulary), pa.string()), begins, place.astype(np.int32), counts.astype(np.int32), length
    )


def count_asked(queries: Sequence[str], blocks: Iterable[tuple[np.ndarray, Sequence[str]]]) -> Postings:
    """As :func:`count_words`, of the words of ``queries`` alone, over passages of which a block is held at a time.

    Args:
        queries: texts.
        blocks: places of some passages among all of them, and their texts.
    """
    words = pa.array(tokenized(queries)[0], pa.string())
    held, places, lengths = [np.zeros((3, 0), np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for place_of, passages in blocks:
        found = count_words(passages)
        word = np.repeat(pc.index_in(found.words, words).fill_null(-1).to_numpy(), found.frequencies)
        held.append(np.stack([word, place_of[found.places], found.counts])[:, word >= 0].astype(np.int32))
        places.append(place_of)
        lengths.append(found.lengths)
    word, place, counts = np.hstack(held)
    order = np.argsort(word, kind="stable")
    begins = np.searchsorted(word[order], np.arange(len(words) + 1))
    in_order = np.concatenate(lengths)[np.argsort(np.concatenate(places))]
    return Postings(words, begins, place[order], counts[order], in_order)


class Index:
    """Passages that can be searched by Lucene's BM25: the postings of all of a corpus, or of a shard of it.

    Args:
        postings: of the passages that are searched.
        frequencies: passages of the whole corpus that hold each word of the postings, [w].
        n_passages: of the whole corpus.
        mean_length: words of a passage of the whole corpus.
        k1: how slowly a word's score levels off as it comes again in a passage.
        b: how much a long passage's words count less: 0 not at all, 1 by its full length.

    Source: Lù 2024, BM25S; numbers are rounded where that library rounds them.
    """

    def __init__(
        self, postings: Postings, frequencies: np.ndarray, n_passages: int, mean_length: float, k1: float, b: float
    ) -> None:
        self.n_passages = len(postings.lengths)
        self._words = {word: place for place, word in enumerate(postings.words.to_pylist())}
        self._places, self._begins = postings.places, postings.begins
        rare = {n: math.log(1 + (n_passages - n + 0.5) / (n + 0.5)) for n in set(frequencies.tolist())}
        rarity = np.array([rare[n] for n in frequencies.tolist()], np.float32)
        times = postings.counts.astype(np.float32)
        damped = k1 * ((1 - b) + b * postings.lengths[postings.places] / mean_length) + times
        self._weights = (np.repeat(rarity, postings.frequencies) * (times / damped)).astype(np.float32)

    def scores(self, query: str) -> np.ndarray:
        """The score of every passage; 0 where it shares no word with the query.

        Shapes:
            returns [n], float32.
        """
        found = self.search([query], self.n_passages)
        scores = np.empty(self.n_passages, np.float32)
        scores[found.indices[0]] = found.scores[0]
        return scores

    def search(self, queries: Sequence[str], k: int, own: np.ndarray | None = None) -> Hits:
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
        words = self._word_numbers(queries)
        own = np.full(len(queries), -1, np.int64) if own is None else np.asarray(own, np.int64)
        found = Hits(
            np.empty((len(queries), k), np.int64),
            np.empty((len(queries), k), np.float32),
            np.full(len(queries), np.nan, np.float32),
        )

        def search_block(at: int) -> None:
            rows = slice(at, at + _BLOCK)
            block = words[rows]
            starts = offsets([len(query) for query in block])
            flat = np.fromiter((word for query in block for word in query), np.int32, starts[-1])
            totals = np.empty(self.n_passages, np.float32)
            index = (self._weights, self._places, self._begins)
            search_words(flat, starts, *index, own[rows], totals, *(part[rows] for part in found))

        with ThreadPoolExecutor(settings().threads) as pool:
            list(pool.map(search_block, range(0, len(queries), _BLOCK)))
        return found

    def _word_numbers(self, queries: Sequence[str]) -> list[list[int]]:
        words, texts = tokenized(queries)
        known = [self._words.get(word, -1) for word in words]
        return [[known[word] for word in text if known[word] >= 0] for text in texts]


class Bm25(Index):
    """An index over all of ``passages``, texts or their postings, by their own frequencies; else as :class:`Index`.

    Raises:
        InputError: there are none.
    """

    def __init__(self, passages: Sequence[str] | Postings, k1: float = 1.5, b: float = 0.75) -> None:
        postings = passages if isinstance(passages, Postings) else count_words(passages)
        n = len(postings.lengths)
        if not n:
            raise InputError("BM25 over no passages: give at least one")
        super().__init__(postings, postings.frequencies, n, int(postings.lengths.sum()) / n, k1, b)
