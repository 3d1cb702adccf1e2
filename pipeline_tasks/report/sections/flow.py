"""The yield of every filter: a flow from addresses to triplets, and what was refused on the way, with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline_tasks.report.content import DESK, Chart, Section, Table, Version
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, axes, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNITS = {
    "urls": "addresses",
    "downloads": "documents",
    "documents": "documents",
    "passages": "passages",
    "needs": "needs",
    "pairs": "queries",
    "labelled": "queries",
    "triplets": "queries",
}
"""Schemas of what flows from page to triplet, and what one row of each is."""
_VERSIONS = """
WITH behind AS (FROM ancestors_of(?) WHERE dataset NOT LIKE 'corpus/%'),
reasons AS (SELECT dataset, version, reason, count(*) AS n FROM rejects GROUP BY ALL),
refused AS (
    SELECT dataset, version, sum(n)::BIGINT AS n_refused,
        string_agg(reason || ' ' || format('{:,}', n), ', ' ORDER BY n DESC, reason) AS reasons
    FROM reasons GROUP BY ALL
),
sampled AS (
    SELECT dataset, version, value::BIGINT AS n_not_sampled
    FROM counters JOIN last_builds USING (run_id, dataset, version) WHERE name = 'not_sampled'
)
SELECT v.dataset || '@' || v.version AS ref, v.step, v.dataset, v.rows_schema, v.rows AS n_kept,
    coalesce(n_refused, 0) AS n_refused, coalesce(reasons, '') AS reasons, coalesce(n_not_sampled, 0) AS n_not_sampled
FROM behind JOIN versions v USING (dataset, version)
LEFT JOIN refused r USING (dataset, version)
LEFT JOIN sampled s USING (dataset, version)
ORDER BY depth DESC, v.dataset
"""
_ROW, _ROW_OF_PHONE, _BAR = 50, 78, 16


@dataclass(frozen=True)
class Stage:
    """One step of the flow: of ``n_kept + n_refused`` rows some were refused, and the others went on."""

    ref: str
    step: str
    dataset: str
    unit: str
    n_kept: int
    n_refused: int
    reasons: str
    n_not_sampled: int

    @property
    def n_seen(self) -> int:
        """Rows that the step decided about."""
        return self.n_kept + self.n_refused

    @property
    def is_build(self) -> bool:
        """Whether it ends here: builds of triplets stand beside one another."""
        return self.dataset.startswith("mtt/")

    @property
    def lost(self) -> str:
        """How many did not go on."""
        skipped = f", {self.n_not_sampled:,} not sampled" if self.n_not_sampled else ""
        return f"{self.n_refused:,} of {self.n_seen:,} refused{skipped}"


def flow_section(ask: Ask, ref: str) -> Section | None:
    """Everything on the way from an address to what ``ref`` learned from; None where that is one step at most."""
    stages = read(ask, ref)
    if len(stages) < 2:
        return None
    title = "From pages to triplets"
    refused = sum(stage.n_refused for stage in stages)
    about = (
        f"What every step kept (blue) and refused (orange) of what it saw, from {stages[0].n_seen:,} {stages[0].unit} "
        f"to {stages[-1].n_kept:,} {stages[-1].unit}; {refused:,} rows were refused, each with its reason. Where rows "
        f"of one kind become rows of another, as documents become passages, the flow has its full width again."
    )
    head = ("step", "rows", "seen", "kept", "refused", "not sampled", "reasons", "version")
    rows = [
        (s.step, s.unit, f"{s.n_seen:,}", f"{s.n_kept:,}", f"{s.n_refused:,}", f"{s.n_not_sampled:,}", s.reasons)
        + (Version(s.ref),)
        for s in stages
    ]
    table = Table(head, rows, frozenset({0, 1, 6, 7}))
    return Section(title, (about,), Chart(title, about, lambda w: _draw(stages, w)), table)


def read(ask: Ask, ref: str) -> list[Stage]:
    """The steps in the order of the data; embeddings, clusters and the like are beside the flow, not in it."""
    rows = [row for row in ask(_VERSIONS, ref) if row["rows_schema"] in _UNITS]
    kinds = list(_UNITS)
    rows.sort(key=lambda row: kinds.index(row["rows_schema"]))
    return [Stage(unit=_UNITS[row.pop("rows_schema")], **row) for row in rows]


def _draw(stages: list[Stage], width: float) -> Figure:
    """A bar for each step, refused rows at its right end; what it kept runs on below it to the next one.

    Words stand beside the bars on a desk, and below them on a phone.
    """
    wide = width == DESK
    left, band = (318, 270) if wide else (0, width)
    row = _ROW if wide else _ROW_OF_PHONE
    drawing = figure(width, row * len(stages))
    panel = axes(drawing, 0, 0, width, row * len(stages))
    panel.set_xlim(0, width)
    panel.set_ylim(row * len(stages), 0)
    panel.axis("off")
    shares = _shares(stages)
    for place, (stage, (seen, kept)) in enumerate(zip(stages, shares, strict=True)):
        top, edge = place * row + 4, left + band * kept
        sides = [top, top, top + _BAR, top + _BAR]
        if place + 1 < len(stages) and not stage.is_build:
            below = left + band * shares[place + 1][0]
            panel.fill([left, edge, below, left], [top, top, top + row, top + row], color=COLOUR["tint"], linewidth=0)
        panel.fill([left, edge, edge, left], sides, color=COLOUR["accent"], linewidth=0)
        if stage.n_refused:
            begin, end = edge + 2, max(edge + 5, left + band * seen)
            panel.fill([begin, end, end, begin], sides, color=COLOUR["refused"], linewidth=0)
        (_beside if wide else _below)(panel, stage, top)
    return drawing


def _shares(stages: list[Stage]) -> list[tuple[float, float]]:
    """How wide each step begins and goes on; all builds of triplets begin where the labelled queries end."""
    shares: list[tuple[float, float]] = []
    unit, goes_on = "", 1.0
    for stage in stages:
        begins = goes_on if stage.unit == unit else 1.0
        kept = begins * stage.n_kept / stage.n_seen if stage.n_seen else 0.0
        shares.append((begins, kept))
        unit, goes_on = stage.unit, begins if stage.is_build else kept
    return shares


def _beside(panel: Axes, stage: Stage, top: float) -> None:
    first, second = top + _BAR / 2, top + _BAR / 2 + 18
    panel.text(216, first, stage.step, ha="right", va="center", fontweight="bold")
    panel.text(216, second, stage.dataset, ha="right", va="center", color=COLOUR["soft"], fontsize=11.5)
    panel.text(306, first, f"{stage.n_kept:,}", ha="right", va="center", fontweight="bold")
    panel.text(306, second, stage.unit, ha="right", va="center", color=COLOUR["soft"], fontsize=11.5)
    if stage.n_refused or stage.n_not_sampled:
        panel.text(604, first, stage.lost, va="center")
        panel.text(604, second, cut(stage.reasons, 42), va="center", color=COLOUR["soft"], fontsize=11.5)


def _below(panel: Axes, stage: Stage, top: float) -> None:
    first = top + _BAR + 13
    panel.text(6, first, stage.step, va="center", fontweight="bold")
    lost = f", {stage.lost}" if stage.n_refused or stage.n_not_sampled else ""
    panel.text(6, first + 17, cut(f"{stage.n_kept:,} {stage.unit}{lost}", 52), va="center", fontsize=11.5)
    panel.text(6, first + 33, cut(stage.reasons, 54), va="center", color=COLOUR["soft"], fontsize=11)


def cut(text: str, most: int) -> str:
    """``text``, or its beginning and an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip(", ") + "…"
