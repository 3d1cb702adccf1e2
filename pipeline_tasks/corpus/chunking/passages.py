"""Texts to passages: every character that is no white space is in exactly one, and none has too many tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.corpus.chunking.best_cuts import best_cuts
from pipeline_tasks.corpus.chunking.drift import cohesion
from pipeline_tasks.corpus.chunking.structure import units_of
from pipeline_tasks.corpus.chunking.words import Words, WordTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CUT_COST = np.array([6.0, 3.0, 1.5, 0.6, 0.4, -0.1, -0.2])
"""What a cut costs by level, from ``INTRODUCED`` to ``SECTION``; an empty passage costs 1, a full one nothing."""

SCRAP_COST = 4.0
COHESION_COST = 0.8
USUAL_DRIFT = 0.6
"""A place that is as coherent as the text's mean costs ``COHESION_COST * USUAL_DRIFT``."""


@dataclass(frozen=True)
class Passage:
    """Characters ``start`` to ``end`` of a text and their number of tokens."""

    start: int
    end: int
    n_tokens: int


class Chunker:
    """Cuts texts into passages of at most ``max_tokens`` tokens, of ``min_tokens`` or more where that can be.

    The only passage that may be over the limit is a single character that alone has more tokens.

    Args:
        tokenizer: counts; neither truncates nor pads.
        max_tokens: most tokens in a passage.
        min_tokens: shorter ones are joined to a neighbour where the limit allows it.
        table: token embeddings as of :func:`~pipeline_tasks.corpus.chunking.drift.token_table`; without them
            only the structure of the text counts.
    """

    def __init__(
        self, tokenizer: Tokenizer, max_tokens: int, min_tokens: int = 0, table: np.ndarray | None = None
    ) -> None:
        self.words = WordTokenizer(tokenizer, max_tokens)
        self._table, self._max_tokens = table, max_tokens
        sizes = np.arange(max_tokens + 1)
        self._size_cost = (1 - sizes / max_tokens) ** 2 + SCRAP_COST * (sizes < min_tokens)

    def __call__(self, text: str) -> list[Passage]:
        """Passages of ``text`` in its order; none of white space alone."""
        return self.passages(self.words(text))

    def passages(self, words: Words) -> list[Passage]:
        """Passages of a text that is words already."""
        if not words.words:
            return []
        units = units_of(words, self._max_tokens)
        cost = CUT_COST[units.levels]
        if self._table is not None:
            cost[1:] += COHESION_COST * (cohesion(words.ids, units.ends, self._table) + USUAL_DRIFT)
        edges = np.append(units.first[best_cuts(units.ends, cost, self._size_cost)], len(words.words))
        if words.is_cut or not self.words.is_exact:
            return exact(words, edges.tolist(), self.words, self._max_tokens)
        sizes = np.diff(np.concatenate([[0], np.cumsum(words.n_tokens)])[edges])
        spans = zip(words.starts[edges[:-1]], words.ends[edges[1:] - 1], sizes, strict=True)
        return [Passage(int(start), int(end), int(size)) for start, end, size in spans]


def exact(words: Words, edges: list[int], tokenizer: WordTokenizer, max_tokens: int) -> list[Passage]:
    """Passages between ``edges`` (numbers of words) with their tokens counted as a whole, halved where over the limit.

    For tokenizers that see a word otherwise inside a text than alone, and for words that were cut. The pieces of one
    with too many letters in a row count as they do alone: as a whole they are one unknown token.
    """
    spans = list(zip(edges, edges[1:], strict=False))
    found: list[Passage] = []
    while spans:
        texts = [words.text[words.starts[a] : words.ends[b - 1]] for a, b in spans]
        halves = []
        for (a, b), size in zip(spans, tokenizer.count(texts), strict=True):
            if words.is_piece[a:b].any():
                size = max(size, int(words.n_tokens[a:b].sum()))
            if size > max_tokens and b - a > 1:
                halves += [(a, (a + b) // 2), ((a + b) // 2, b)]
            else:
                found.append(Passage(int(words.starts[a]), int(words.ends[b - 1]), size))
        spans = halves
    return sorted(found, key=lambda passage: passage.start)
