"""What a causal model continues to say how well a passage serves a query: query likelihood and graded relevance.

Both prompts begin with the same examples for every pair, so that a model reads them once (Gecko 3.2). The wording and
the examples are ours.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline_tasks.core.ids import digest

GRADES = (" none", " low", " high", " full")
"""What a passage is worth, from nothing to all; the place of each is its grade."""


class _Example(NamedTuple):
    passage: str
    task: str
    query: str
    grade: int


_EXAMPLES = (
    _Example(
        "Rennet makes milk set: its enzyme cuts a protein that kept the fat afloat, and curds part from the whey.",
        "Given a question, find a passage that answers it.",
        "how does rennet turn milk into curds",
        3,
    ),
    _Example(
        "The ferry to the islands runs hourly from May to September, and twice a day in winter.",
        "Given a claim, find a passage that shows whether it is true or false.",
        "In January the islands can be reached by ferry every hour.",
        3,
    ),
    _Example(
        "Goats' cheese is sold at the market on Fridays, beside honey and eggs from the same farm.",
        "Given a question, find a passage that answers it.",
        "how does rennet turn milk into curds",
        1,
    ),
    _Example(
        "Two carpenters mended the pier in spring. The work took nine days longer than planned.",
        "Given keywords, find a passage about them.",
        "winter ferry timetable islands",
        0,
    ),
    _Example(
        "In winter storms the ferry may stay in harbour; a board at the pier says in the morning whether it goes.",
        "Given keywords, find a passage about them.",
        "winter ferry timetable islands",
        2,
    ),
)
_ASKED = "Below are passages, each with a search that it serves well.\n\n"
_GRADED = "Below are passages, each with a search and how far the passage serves it: none, low, high or full.\n\n"

LIKELIHOOD_BEGINNING = _ASKED + "".join(
    f"Passage: {e.passage}\nTask: {e.task}\nQuery: {e.query}\n\n" for e in _EXAMPLES if e.grade == len(GRADES) - 1
)
RELEVANCE_BEGINNING = _GRADED + "".join(
    f"Passage: {e.passage}\nTask: {e.task}\nQuery: {e.query}\nServes it:{GRADES[e.grade]}\n\n" for e in _EXAMPLES
)


def before_query(passage: str, task: str) -> str:
    """What the query follows."""
    return f"Passage: {passage}\nTask: {task}\nQuery:"


def before_grade(passage: str, task: str, query: str) -> str:
    """What the grade follows."""
    return f"{before_query(passage, task)} {query}\nServes it:"


def sha256() -> str:
    """What stands for both prompts in the id of what is scored by them."""
    return digest(LIKELIHOOD_BEGINNING, RELEVANCE_BEGINNING, before_grade("", "", ""), GRADES)
