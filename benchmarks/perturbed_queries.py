"""Queries without their keywords: what is left of a score shows how much a system finds passages by these alone.

Keywords of a query are those of its words that fewest passages have. They are left out, or each is replaced by a word
that stands for it: of the corpus's words the one nearest to it by an embedder, of another beginning, so that "floods"
does not stand for "flood".

Source: BMEmbed, its study of perturbed queries. Departure: its synonyms are an LLM's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipeline_tasks.retrieval.search import top_k

WAYS = ("masked", "synonyms")
_WORD = re.compile(r"[^\W\d_][\w'’-]+")
_COMMON = 0.1
"""A word of a larger share of all passages is nobody's keyword."""
_BEGINNING, _CANDIDATES, _LEAST = 4, 20, 2


def perturbed(
    queries: Sequence[str], texts: Sequence[str], n: int, encode: Callable[[list[str]], np.ndarray]
) -> dict[str, list[str]]:
    """Each way -> the queries with their ``n`` rarest words masked or replaced.

    Args:
        queries: as they are.
        texts: of the corpus.
        n: keywords of a query at most.
        encode: L2-normalised vectors of words.
    """
    passages_with = Counter(word for text in texts for word in set(_words(text)))
    most = max(_LEAST, _COMMON * len(texts))
    keywords = [
        sorted((w for w in set(_words(q)) if 0 < passages_with[w] <= most), key=lambda w: (passages_with[w], w))[:n]
        for q in queries
    ]
    known = [word for word, count in passages_with.items() if _LEAST <= count <= most]
    instead = _nearest(sorted({word for each in keywords for word in each}), known, encode)
    replaced_by = {"masked": dict.fromkeys(instead, ""), "synonyms": instead}
    return {
        way: [_with(query, own, words) for query, own in zip(queries, keywords, strict=True)]
        for way, words in replaced_by.items()
    }


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _with(query: str, keywords: Sequence[str], words: Mapping[str, str]) -> str:
    """``query`` with another word for each keyword."""
    changed = _WORD.sub(lambda m: words[m[0].lower()] if m[0].lower() in keywords else m[0], query)
    return " ".join(changed.split())


def _nearest(wanted: list[str], known: list[str], encode: Callable[[list[str]], np.ndarray]) -> dict[str, str]:
    """For each word another of those known; none where all that are near begin as it does."""
    if not wanted or not known:
        return dict.fromkeys(wanted, "")
    found = top_k(encode(wanted), encode(known), min(_CANDIDATES, len(known)))[0]
    return {
        word: next((known[i] for i in row if known[i][:_BEGINNING] != word[:_BEGINNING]), "")
        for word, row in zip(wanted, found, strict=True)
    }
