"""The sentence of a passage that is nearest to a question: what is marked, and what a judgement quotes unless told."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_tasks.ask.systems import System
from pipeline_tasks.texts.sentences import sentences


def plain(text: str) -> str:
    """``text`` with single spaces: a quote is on one line, wherever the document breaks it."""
    return " ".join(text.split())


def nearest(
    system: System, queries: Sequence[str], intents: Sequence[str], texts: Sequence[Sequence[str]]
) -> list[list[str]]:
    """Per query and per passage of it, the sentence that ``system`` finds nearest to the query.

    Args:
        system: who compares.
        queries: [q].
        intents: [q].
        texts: [q] lists of passages.
    """
    cut = {text: sentences(text) or [text] for found in texts for text in found}
    distinct = list(dict.fromkeys(sentence for each in cut.values() for sentence in each))
    if not distinct:
        return [[] for _ in queries]
    place = {sentence: i for i, sentence in enumerate(distinct)}
    scores = system.likeness(queries, intents, distinct)
    return [
        [max(cut[text], key=lambda sentence: scores[q, place[sentence]]) for text in found]
        for q, found in enumerate(texts)
    ]
