"""Units that a passage is made of, and what it costs to cut before each: sections and paragraphs cheap, words dear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline_tasks.corpus.chunking.sentences import BULLETS, is_enumerator, sentence_ends
from pipeline_tasks.corpus.chunking.words import Words, marked

INTRODUCED, WORD, CLAUSE, SENTENCE, ITEM, PARAGRAPH, SECTION = range(7)
_CLAUSE_END = marked(",;:–—，；：、،؛")
_COLON, _NO_HEADING_END, _BULLET = marked(":："), marked(".!?…,;:。！？：；，"), marked(BULLETS)
_HEADING_WORDS = 12


@dataclass(frozen=True)
class Units:
    """Runs of words that are cut only where nothing else helps: sentences, items, headings.

    Attributes:
        first: first word of each unit, [u].
        levels: how good a place to cut the beginning of each unit is, ``INTRODUCED`` to ``SECTION``, [u].
        ends: number of tokens up to the end of each unit, from the beginning of the text, [u + 1]; ``ends[0]`` is 0.
    """

    first: np.ndarray
    levels: np.ndarray
    ends: np.ndarray


def units_of(words: Words, max_tokens: int) -> Units:
    """Units of a text, each of at most ``max_tokens`` tokens where its words are."""
    levels = word_levels(words)
    total = np.concatenate([[0], np.cumsum(words.n_tokens)])
    first = np.flatnonzero((levels >= SENTENCE) | (levels == INTRODUCED))
    first = _with_cuts_of_long_ones(first, levels, total, max_tokens)
    return Units(first, levels[first], total[np.append(first, len(levels))])


def word_levels(words: Words) -> np.ndarray:
    """How good a place to cut the beginning of each word is.

    Shapes:
        returns [w], int8.
    """
    n = len(words.starts)
    if n == 0:
        return np.zeros(0, np.int8)
    newlines = _newlines_before(words)
    sentence = sentence_ends(words, newlines > 0)
    final = words.codes[words.ends - 1]
    after = np.full(n, WORD, np.int8)
    after[_CLAUSE_END[final]] = CLAUSE
    after[sentence] = SENTENCE
    levels = np.concatenate([[SECTION], after[:-1]]).astype(np.int8)
    lines = np.flatnonzero(newlines > 0)
    for i in lines[1:].tolist():
        if not words.words[i][0].islower() or sentence[i - 1]:
            levels[i] = PARAGRAPH if newlines[i] > 1 else max(levels[i], _level_of_line(words.words[i]))
        elif newlines[i] > 1:
            levels[i] = CLAUSE
    bullet = _BULLET[words.codes[words.starts]] & (words.ends - words.starts == 1)
    dash = np.isin(words.codes[words.starts], [0x2D, 0x2013, 0x2014, 0x2A, 0xB7])
    items = bullet & ((newlines > 0) | ~dash)
    levels[items & (levels < ITEM)] = ITEM
    _introduce(words, levels, newlines, final)
    return levels


def _newlines_before(words: Words) -> np.ndarray:
    seen = np.concatenate([[0], np.cumsum(words.codes == 10)])
    return np.concatenate([[2], seen[words.starts[1:]] - seen[words.ends[:-1]]])


def _level_of_line(word: str) -> int:
    return ITEM if word[0] in BULLETS or is_enumerator(word) else WORD


def _introduce(words: Words, levels: np.ndarray, newlines: np.ndarray, final: np.ndarray) -> None:
    """Bind a heading to what it heads, and a line that ends with a colon to what it announces."""
    begins = np.flatnonzero((levels >= ITEM) | (newlines > 0))
    if len(begins) < 2:
        return
    lengths = np.diff(np.append(begins, len(levels)))
    last = final[np.append(begins[1:], len(levels)) - 1]
    short = (lengths <= _HEADING_WORDS) & ~_NO_HEADING_END[last] & (levels[begins] == PARAGRAPH)
    short[0] = lengths[0] <= _HEADING_WORDS and not _NO_HEADING_END[last[0]]
    short &= np.array([_may_begin_a_heading(words.words[i]) for i in begins.tolist()])
    body = ~np.append(short[1:], True) & np.append(levels[begins[1:]] >= ITEM, False)
    heads = short & body
    heads |= short & np.append(heads[1:], False)
    levels[begins[heads]] = SECTION
    announced = np.append(False, heads[:-1] | _COLON[last[:-1]])
    levels[begins[announced]] = INTRODUCED


def _may_begin_a_heading(word: str) -> bool:
    return word[0] == "#" or (word[0] not in BULLETS and not word[0].islower())


def _with_cuts_of_long_ones(first: np.ndarray, levels: np.ndarray, total: np.ndarray, max_tokens: int) -> np.ndarray:
    """Halve units of too many tokens until none is left, at the end of a clause near the middle where there is one."""
    edges = np.append(first, len(levels))
    long = np.flatnonzero(np.diff(total[edges]) > max_tokens)
    cuts: list[int] = []
    waiting = [(int(edges[i]), int(edges[i + 1])) for i in long]
    while waiting:
        a, b = waiting.pop()
        if total[b] - total[a] <= max_tokens or b - a < 2:
            continue
        cut = _near_middle(levels, total, a, b)
        cuts.append(cut)
        waiting += [(a, cut), (cut, b)]
    return np.union1d(first, np.array(cuts, first.dtype))


def _near_middle(levels: np.ndarray, total: np.ndarray, a: int, b: int) -> int:
    quarter = (total[b] - total[a]) // 4
    low, high = np.searchsorted(total, [total[a] + quarter, total[b] - quarter])
    middle = int(np.clip(np.searchsorted(total, (total[a] + total[b]) // 2), a + 1, b - 1))
    clauses = np.flatnonzero(levels[max(low, a + 1) : min(high, b)] >= CLAUSE) + max(low, a + 1)
    return int(clauses[np.abs(clauses - middle).argmin()]) if len(clauses) else middle
