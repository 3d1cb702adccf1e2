"""Every difference between a model and another system: how large, how sure, and whether it is luck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline_tasks.evaluation.scores import Scores
from pipeline_tasks.evaluation.statistics import Difference
from pipeline_tasks.report.content import Chart, Section, Table
from pipeline_tasks.report.luck import BETTER, WORSE, in_short, p_of
from pipeline_tasks.report.names import label_width, shortened
from pipeline_tasks.report.theme import COLOUR, axes, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW = 23


def difference_section(scores: Scores, system: str) -> Section | None:
    """``system`` against all others of its evaluation; None where it is alone."""
    found = scores.differences(system)
    if not found:
        return None
    title = f"Differences on {scores.set_name}"
    about = (
        f"What {system} gains over each other system in average {scores.metric.upper()}, on the same "
        f"{len(scores.intents):,} queries, with the 95% interval of a paired bootstrap. Grey: it may be luck, by a "
        f"one-tailed Wilcoxon signed-rank test, p-values raised for their number (Holm), thus more cautious than above."
    )
    rows = [
        (
            name,
            f"{d.gain:+.3f}",
            f"{d.low:+.3f} to {d.high:+.3f}",
            f"{d.wins:,} / {d.losses:,}",
            p_of(d).removeprefix("= "),
            in_short(d),
        )
        for name, d in found.items()
    ]
    head = (f"{system} against", "difference", "95% interval", "queries better / worse", "p", f"{system} is")
    chart = Chart(title, about, lambda width: _draw(found, width))
    return Section(title, (about,), chart, Table(head, rows, frozenset({0, 5})))


def _draw(found: Mapping[str, Difference], width: float) -> Figure:
    names = list(found)
    label = label_width(names, width)
    drawing = figure(width, _ROW * len(names) + 34)
    panel = axes(drawing, label, 4, width - label - 56, _ROW * len(names))
    colours = {BETTER: COLOUR["accent"], WORSE: COLOUR["refused"]}
    for place, difference in enumerate(found.values()):
        colour = colours.get(in_short(difference), COLOUR["muted"])
        panel.plot([difference.low, difference.high], [place, place], color=colour, linewidth=2, alpha=0.55)
        panel.plot([difference.gain], [place], "o", color=colour, markersize=6.5)
        said = f"{difference.gain:+.3f}"
        panel.annotate(said, (1, place), (8, 0), ("axes fraction", "data"), "offset points", va="center")
    panel.axvline(0, color=COLOUR["soft"], linewidth=1.5)
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.set_yticks(range(len(names)), [shortened(name, label) for name in names])
    for text in panel.get_yticklabels():
        text.set_color(COLOUR["ink"])
    panel.grid(axis="y", visible=False)
    return drawing
