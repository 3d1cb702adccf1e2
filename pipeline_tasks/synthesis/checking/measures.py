"""What is measured of a written text: each measure is a number, and :mod:`checks` says what it may be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pipeline_tasks.synthesis.checking import phrases
from pipeline_tasks.synthesis.checking.wording import (
    content_of,
    digits_of,
    english_share,
    figures_of,
    grams_of,
    longest_run,
    numbers_of,
    words_of,
)

RUN = 4
"""Words in a row that tell where a text comes from."""
USUAL_STEMS = 60
"""Stems of a passage of 250 tokens, as the chunker cuts them."""
FEWEST_STEMS = 20
"""A passage that says less is held to say so much: one stem in common is no support."""


@dataclass(frozen=True)
class Draft:
    """What a writer wrote, and what it is held against.

    Attributes:
        query: a query; or a need, which is all that was written then.
        positive: the query's positive passage.
        passage: what the writer was shown.
        seen: answers of the prompt's examples.
        lead: the words that the first text was begun with.
        kind: what was written; a pair has a positive.
    """

    query: str
    passage: str
    positive: str = ""
    seen: tuple[str, ...] = ()
    lead: str = ""
    kind: Literal["need", "query", "pair"] = "pair"

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """All that was written."""
        return (self.query, self.positive) if self.kind == "pair" else (self.query,)

    @cached_property
    def evidence(self) -> str:
        """The passage without sentences that speak to a model: they are evidence of nothing."""
        return phrases.without_orders(self.passage)

    @cached_property
    def source(self) -> set[str]:
        """Stems of the evidence."""
        return content_of(self.evidence)


def fewest_words(draft: Draft) -> float:
    """Words of the shortest text."""
    return min(len(words_of(text)) for text in draft.texts)


def positive_words(draft: Draft) -> float:
    """Words of the positive."""
    return len(words_of(draft.positive))


def query_chars(draft: Draft) -> float:
    """Characters of the query or need."""
    return len(draft.query)


def positive_chars(draft: Draft) -> float:
    """Characters of the positive."""
    return len(draft.positive)


def symbols(draft: Draft) -> float:
    """The largest share of a text that is neither letters nor spaces; 1 where one has markup or an address."""
    if any(phrases.MARKUP.search(text) for text in draft.texts):
        return 1.0
    return max(1 - sum(c.isalpha() or c.isspace() for c in text) / max(1, len(text)) for text in draft.texts)


def refusals(draft: Draft) -> float:
    """Turns of phrase of a model that does not do what it is asked."""
    return _count_matches(phrases.REFUSAL, draft.texts)


def boilerplate(draft: Draft) -> float:
    """Turns of phrase about the answer instead of the matter."""
    return _count_matches(phrases.BOILERPLATE, draft.texts)


def english(draft: Draft) -> float:
    """The least share of English in a text; 1 where the passage is not English itself."""
    return min(map(english_share, draft.texts)) if english_share(draft.passage) >= 0.5 else 1.0


def repeated(draft: Draft) -> float:
    """The largest share of a text's words that come again; 1 where a run of words does."""
    return max(map(_repeated, draft.texts))


def bound_to_context(draft: Draft) -> float:
    """Words of the query that only somebody who sees the passage understands."""
    return _count_matches(phrases.BOUND, draft.texts[:1])


def from_example(draft: Draft) -> float:
    """The largest share of a text's runs of words that stand in one example's answer and not in the passage."""
    return max(_from_example(text, draft) for text in draft.texts)


def fewest_shared_stems(draft: Draft) -> float:
    """Stems that the least supported text shares with the passage."""
    return min(len(content_of(text) & draft.source) for text in draft.texts)


def least_supported(draft: Draft) -> float:
    """Share of a text's stems that are the passage's, of the text that has the least."""
    return min(_share(content_of(text), draft.source) for text in draft.texts)


def supported(draft: Draft) -> float:
    """Share of the stems of all that was written that are the passage's, as if that were of the usual length.

    A short passage says less: fewer words of a good pair stand in it, and fewer of any other text by chance.
    """
    share = _share(set().union(*map(content_of, draft.texts)), draft.source)
    return share * max(1.0, USUAL_STEMS / max(FEWEST_STEMS, len(draft.source)))


def new_numbers(draft: Draft) -> float:
    """Numbers in digits that the passage has not."""
    return max(len(digits_of(text) - digits_of(draft.evidence)) for text in draft.texts)


def new_figures(draft: Draft) -> float:
    """Figures of the positive that neither the passage nor the query names."""
    return len(figures_of(draft.positive) - numbers_of(draft.evidence) - numbers_of(draft.query))


def same_words(draft: Draft) -> float:
    """1 where query and positive have the same words."""
    return float(set(words_of(draft.query)) == set(words_of(draft.positive)))


def answer_in_query(draft: Draft) -> float:
    """Share of the positive's stems that stand in the query."""
    return _share(content_of(draft.positive), content_of(draft.query), none=0.0)


def run_in_both(draft: Draft) -> float:
    """Words in a row that query and positive have in common."""
    return longest_run(words_of(draft.query), words_of(draft.positive))


def copied_run(draft: Draft) -> float:
    """Words in a row that a text has from the passage."""
    source = words_of(draft.passage)
    return max(longest_run(words_of(text), source) for text in draft.texts)


def copied_share(draft: Draft) -> float:
    """The largest share of a text's runs of words that stand in the passage."""
    source = set(grams_of(words_of(draft.passage), RUN))
    return max(_share(set(grams_of(words_of(text), RUN)), source, none=0.0) for text in draft.texts)


def unrefuted_figures(draft: Draft) -> float:
    """Figures of a claim that the passage has not, where its evidence gives no other and denies nothing."""
    if phrases.DENIAL.search(draft.positive) or figures_of(draft.positive):
        return 0
    return len(figures_of(draft.query) - numbers_of(draft.evidence) - numbers_of(draft.positive))


def figures_beyond_premise(draft: Draft) -> float:
    """Figures of a hypothesis that its premise has not."""
    return len(figures_of(draft.positive) - numbers_of(draft.query))


def _count_matches(pattern: phrases.Pattern, texts: tuple[str, ...]) -> float:
    return sum(bool(pattern.search(text)) for text in texts)


def _share(part: set, of: set, *, none: float = 1.0) -> float:
    return len(part & of) / len(part) if part else none


def _repeated(text: str) -> float:
    words = words_of(text)
    runs = list(grams_of(words, RUN))
    again = len(set(runs)) < len(runs)
    return 1.0 if again else 1 - len(set(words)) / max(1, len(words))


def _from_example(text: str, draft: Draft) -> float:
    begun = text.lower().startswith(draft.lead.lower())
    words = words_of(text[len(draft.lead) :] if begun else text) or words_of(text)
    n = min(RUN, len(words))
    runs, own = set(grams_of(words, n)), set(grams_of(words_of(draft.passage), n))
    shared = (len(runs & set(grams_of(words_of(seen), n)) - own) for seen in draft.seen)
    return max(shared, default=0) / max(1, len(runs))
