"""Pairs without an LLM: a sentence of a passage is the query, the rest of the passage is its positive.

The trade-off: such a query shares its author's words with its positive, unlike a user's; so these pairs teach what a
text is about, and pairs with real queries what is asked. Where queries are few, they carry most of pre-training.

Source: the inverse cloze task of Lee, Chang and Toutanova, 2019 (arXiv 1906.00300), section 4; not in DMRetriever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pipeline_tasks.core.ids import short_id, unit_hash

_SENTENCE_GAP = re.compile(r"(?<=[.!?])\s+")
_FEWEST_WORDS, _MOST_WORDS = 5, 40
_FEWEST_REST_WORDS = 15


class ClozePair(NamedTuple):
    """A sentence and what is left of its passage."""

    query: str
    positive_id: str
    positive: str


def cloze_pairs(passage_id: str, text: str, most: int) -> Iterator[ClozePair]:
    """At most ``most`` pairs of a passage; which sentences depends on ``passage_id`` and their places alone.

    Sentences of fewer than 5 or more than 40 words are no queries, and a rest of fewer than 15 words is no passage.
    """
    sentences = _SENTENCE_GAP.split(text)
    drawn = sorted(range(len(sentences)), key=lambda i: unit_hash("cloze", passage_id, i))
    fit = [i for i in drawn if _FEWEST_WORDS <= len(sentences[i].split()) <= _MOST_WORDS]
    for i in fit[:most]:
        rest = " ".join(sentences[:i] + sentences[i + 1 :])
        if len(rest.split()) >= _FEWEST_REST_WORDS:
            yield ClozePair(sentences[i], short_id(passage_id, "cloze", i), rest)
