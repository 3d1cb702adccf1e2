"""What a report says, before it is a page or Markdown: sections of words, charts and the tables behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PHONE, DESK = 350, 880
"""Widths that every chart is drawn for, in CSS pixels: a page shows the one that fits."""


@dataclass(frozen=True)
class Version:
    """A cell that names a version, ``dataset@id``, and leads to its place in the lineage."""

    ref: str


@dataclass(frozen=True)
class Table:
    """Rows as a person reads them; the columns in ``texts`` are words, all others numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str | Version]]
    texts: frozenset[int] = frozenset({0})


@dataclass(frozen=True)
class Chart:
    """A picture with a name, what it shows in words, and how it is drawn at a width."""

    title: str
    description: str
    draw: Callable[[float], Figure]
    tips: Sequence[str] = ()
    """What a browser shows where the pointer rests on the artist whose gid is ``tip-<place>``."""


@dataclass(frozen=True)
class Passage:
    """One retrieved passage; ``grade`` is None where nobody judged it."""

    passage_id: str
    text: str
    grade: int | None


@dataclass(frozen=True)
class Query:
    """One query and what was retrieved for it; ``before`` is the score that the start had."""

    query_id: str
    query: str
    intent: str
    score: float
    before: float | None
    passages: Sequence[Passage]


@dataclass(frozen=True)
class Section:
    """One question that a report answers. The table holds everything that the chart shows."""

    title: str
    words: Sequence[str] = ()
    chart: Chart | None = None
    table: Table | None = None
    queries: Sequence[tuple[str, Sequence[Query]]] = ()
    in_short: bool = True
    """Whether Markdown for a pull request has it."""


@dataclass(frozen=True)
class Report:
    """A whole report: the answer first, then sections in groups, each with a heading (or none)."""

    title: str
    answer: Sequence[str]
    numbers: Sequence[tuple[str, str, str]]
    """Label, number, what it means: the few that the first screen shows."""
    facts: Sequence[tuple[str, Version, str]]
    """Label, version, and what is to be said of it."""
    groups: Sequence[tuple[str, Sequence[Section]]]
