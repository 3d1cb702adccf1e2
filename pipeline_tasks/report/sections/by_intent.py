"""Scores by intent, each with its interval and the number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from pipeline_tasks.evaluation.scores import AVERAGE, Scores
from pipeline_tasks.report.content import DESK, Chart, Section, Table, Version
from pipeline_tasks.report.names import colour_of, interval_text, label_width, shortened
from pipeline_tasks.report.theme import COLOUR, axes, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _HEAD, _GAP = 21, 46, 14


def score_section(scores: Scores, system: str, answer: Sequence[str] = ()) -> Section:
    """Every system on every intent, ``answer`` before them; ``system`` and its start stand out."""
    title = f"Scores on {scores.set_name}, by intent"
    about = (
        f"{scores.metric.upper()} of {len(scores.table)} systems, the best above: a point is the mean, the line its "
        f"95% interval. The average is over intents, so that each counts the same."
    )
    words = [*answer, about]
    if few := [kind for kind, n in scores.counts.items() if n < 20 and kind != AVERAGE]:
        words.append(f"Fewer than 20 queries, so hardly more than a hint: {', '.join(few)}.")
    chart = Chart(title, about, lambda width: _draw(scores, system, width))
    return Section(title, words, chart, _table(scores))


def _table(scores: Scores) -> Table:
    counts = scores.counts
    head = ["system", *(f"{kind} (n={n:,})" for kind, n in counts.items()), "version"]
    rows = []
    for system, row in scores.table.items():
        ref = scores.models[system]
        rows.append([system, *(interval_text(row[kind]) for kind in counts), Version(ref) if ref else ""])
    return Table(head, rows, frozenset({0, len(head) - 1}))


def _draw(scores: Scores, subject: str, width: float) -> Figure:
    """On a desk all intents stand beside the average, on a phone two abreast below it."""
    names, kinds = list(scores.table), scores.kinds
    label = label_width(names, width)
    height = _ROW * len(names)
    if width == DESK:
        first, rest = (width - label) * 0.3, (width - label) * 0.7
        each = rest / max(1, len(kinds))
        drawing = figure(width, height + _HEAD + 24)
        boxes = [(label + first + i * each + _GAP, _HEAD, each - _GAP) for i in range(len(kinds))]
        lead = axes(drawing, label, _HEAD, first - 34, height)
    else:
        each = (width - label) / 2
        block = height + _HEAD + 30
        drawing = figure(width, block * (1 + ceil(len(kinds) / 2)))
        boxes = [
            (label + (i % 2) * each + (i % 2) * _GAP / 2, _HEAD + block * (1 + i // 2), each - _GAP)
            for i in range(len(kinds))
        ]
        lead = axes(drawing, label, _HEAD, width - label - 44, height)
    _panel(lead, scores, subject, AVERAGE, label)
    for i, (kind, (left, top, wide)) in enumerate(zip(kinds, boxes, strict=True)):
        panel = axes(drawing, left, top, wide, height)
        _panel(panel, scores, subject, kind, 0 if width == DESK or i % 2 else label)
    return drawing


def _panel(panel: Axes, scores: Scores, subject: str, kind: str, label: float) -> None:
    names = list(scores.table)
    for place, system in enumerate(names):
        score = scores.table[system][kind]
        colour = colour_of(scores, system, subject)
        panel.plot([score.low, score.high], [place, place], color=colour, linewidth=2, alpha=0.55)
        panel.plot([score.mean], [place], "o", color=colour, markersize=6.5)
        if kind == AVERAGE:
            panel.text(1.04, place, f"{score.mean:.3f}", va="center", color=COLOUR["ink"], clip_on=False)
    least = min(score.low for row in scores.table.values() for score in row.values())
    ticks = {0.0: "0", 0.5: ".5", 1.0: "1"} if least >= 0 else {-1.0: "-1", 0.0: "0", 1.0: "1"}  # p-MRR may be below
    panel.set_xlim(min(ticks), 1)
    panel.set_ylim(len(names) - 0.4, -0.6)
    inner = sorted(ticks)[1]
    panel.set_xticks([*ticks], [*ticks.values()] if kind == AVERAGE else ["", ticks[inner], ""])
    panel.grid(axis="y", visible=False)
    if label:
        panel.set_yticks(range(len(names)), [shortened(name, label) for name in names])
    else:
        panel.set_yticks([])
    for text, system in zip(panel.get_yticklabels(), names, strict=False):
        text.set_color(COLOUR["ink"])
        text.set_fontweight("bold" if system == subject else "normal")
    panel.set_title(f"{kind}\n", pad=4)
    panel.text(0, 1.02, f"n={scores.counts[kind]:,}", transform=panel.transAxes, color=COLOUR["soft"], fontsize=11)
