"""Why a written text is refused: one table of measures, in the order in which they are taken.

A measure is a number, and a bound says what it may be at least or at most. The first measure out of its bound gives
the reason. What a step was told comes before the table: ``{"supported": 0.3}`` is for every intent,
``{"supported/nli": 0.1}`` for one. A measure that has no bound for a writer and an intent is not taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import check_known
from pipeline_tasks.synthesis.checking import measures as m
from pipeline_tasks.synthesis.checking.measures import Draft

Kind = Literal["completion", "chat"]
Bounds = Mapping[str, float]
"""``least`` or ``most`` of each measure that is taken."""


@dataclass(frozen=True)
class Check:
    """One measure with its bounds.

    Attributes:
        name: of the measure; a step's ``checks`` names it.
        reason: of the reject.
        measure: a number of a draft.
        side: whether the bound is the ``least`` or the ``most`` that is kept.
        completion: bound for a small model that continues a text, by intent; ``""`` is any other intent. How long its
            texts may be is said by its prompt.
        chat: bound for a model that follows instructions.
        of: what has the measure: a ``pair``, a ``query`` (by itself or of a pair), or ``any``, a need too.
    """

    name: str
    reason: str
    measure: Callable[[Draft], float]
    side: Literal["least", "most"]
    completion: Mapping[str, float]
    chat: Mapping[str, float]
    of: Literal["any", "query", "pair"] = "any"

    def refuses(self, draft: Draft, bound: float) -> bool:
        """Whether ``draft`` is out of ``bound``."""
        found = self.measure(draft)
        return found < bound if self.side == "least" else found > bound


def _any(bound: float) -> dict[str, float]:
    return {"": bound}


_NONE: dict[str, float] = {}
_NEVER = _any(0)
# The bounds of chat are where 95 of 100 pairs of a strong writer, and more, are on the right side: see
# benchmarks/pair_checks.py. Premises invent particulars and tweets are short of words, so intents differ.
_SUPPORTED = {"qa": 0.34, "qadoc": 0.34, "twitter": 0.33, "factcheck": 0.34, "nli": 0.2, "sts": 0.22, "": 0.25}
_ANSWER_SHARE = {"qa": 0.6, "qadoc": 0.5, "twitter": 0.5, "factcheck": 0.7, "sts": 0.8, "nli": math.inf, "": 0.8}
_NO_FIGURES = {"nli": math.inf, "twitter": math.inf, "": 0}
_CHARS = {"qa": 700, "qadoc": 1_500, "twitter": 280, "factcheck": 700, "nli": 300, "sts": 400, "": 1_500}

TABLE = (
    Check("some_words", "empty_answer", m.fewest_words, "least", _any(1), _any(1)),
    Check("refusals", "refusal", m.refusals, "most", _NEVER, _NEVER),
    Check("boilerplate", "boilerplate", m.boilerplate, "most", _NONE, _NEVER),
    Check("english", "language", m.english, "least", _NONE, _any(0.5)),
    Check("words", "too_short", m.fewest_words, "least", _any(4), _any(4)),
    Check("positive_words", "too_short", m.positive_words, "least", _NONE, {"qadoc": 20}, "pair"),
    Check("query_chars", "too_long", m.query_chars, "most", _NONE, _any(300)),
    Check("positive_chars", "too_long", m.positive_chars, "most", _NONE, _CHARS, "pair"),
    Check("symbols", "garbled", m.symbols, "most", _any(0.3), _any(0.3)),
    Check("unaware", "context_bound", m.bound_to_context, "most", _NONE, _NEVER, "query"),
    Check("same_words", "query_is_passage", m.same_words, "most", _NEVER, _NEVER, "pair"),
    Check("copied_run", "copied", m.copied_run, "most", _NONE, _any(14)),
    Check("copied_share", "copied", m.copied_share, "most", _NONE, _any(0.45)),
    Check("from_example", "copied_example", m.from_example, "most", _any(0.49), _any(0.49)),
    Check("repeated", "repetitive", m.repeated, "most", _any(0.5), _any(0.5)),
    Check("answer_share", "answer_in_query", m.answer_in_query, "most", _NONE, _ANSWER_SHARE, "pair"),
    Check("shared_run", "answer_in_query", m.run_in_both, "most", _NONE, _any(8), "pair"),
    Check("not_entailed", "not_entailed", m.figures_beyond_premise, "most", _NONE, {"nli": 0}, "pair"),
    Check("unrefuted", "unrefuted", m.unrefuted_figures, "most", _NONE, {"factcheck": 0}, "pair"),
    Check("stems", "off_passage", m.fewest_shared_stems, "least", _any(2), _NONE),
    Check("each_supported", "off_passage", m.least_supported, "least", _any(0.4), _NONE),
    Check("supported", "off_passage", m.supported, "least", _NONE, _SUPPORTED, "pair"),
    Check("new_numbers", "new_number", m.new_numbers, "most", _NEVER, _NONE),
    Check("new_figures", "new_number", m.new_figures, "most", _NONE, _NO_FIGURES, "pair"),
)


def bounds_of(kind: Kind, intent: str, overrides: Bounds | None = None) -> dict[str, float]:
    """The bound of each measure that is taken of what ``kind`` writes for ``intent``.

    Args:
        kind: of writer.
        intent: searched with.
        overrides: bounds that take the place of the table's, by ``measure`` or ``measure/intent``.
    """
    overrides = overrides or {}
    found = {}
    for check in TABLE:
        own = check.completion if kind == "completion" else check.chat
        ways = ((overrides, f"{check.name}/{intent}"), (overrides, check.name), (own, intent), (own, ""))
        bound = next((bounds[name] for bounds, name in ways if name in bounds), None)
        if bound is not None:
            found[check.name] = bound
    return found


def fault_of(draft: Draft, bounds: Bounds) -> str:
    """The reason why ``draft`` is refused; empty for one that is kept."""
    has = {"need": ("any",), "query": ("any", "query"), "pair": ("any", "query", "pair")}[draft.kind]
    taken = (check for check in TABLE if check.name in bounds and check.of in has)
    return next((check.reason for check in taken if check.refuses(draft, bounds[check.name])), "")


def check_names(bounds: Bounds) -> None:
    """Make sure that every bound is of a measure, and of an intent of the domain if of one.

    Raises:
        InputError: one is not.
    """
    names = [check.name for check in TABLE]
    for name in bounds:
        measure, of_one, intent = name.partition("/")
        if measure not in names:
            raise InputError(f"checks={name!r} is no measure; known are {', '.join(names)}")
        if of_one:
            check_known(domain_folder(), intent)
