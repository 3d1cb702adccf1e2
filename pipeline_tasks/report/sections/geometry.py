"""How embedders lay out queries and passages: alignment against uniformity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_tasks.evaluation.geometry import Geometry
from pipeline_tasks.evaluation.scores import AVERAGE, Scores
from pipeline_tasks.report.content import Chart, Section, Table
from pipeline_tasks.report.evaluations import geometries
from pipeline_tasks.report.names import colour_of, name_points
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, axes, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def geometry_section(ask: Ask, scores: Scores, system: str) -> Section | None:
    """Every embedder of the evaluation whose layout was measured; None where none was. Source: BMEmbed, Figure 4."""
    found = geometries(ask, scores.ref)
    found = {name: found[name] for name in scores.table if name in found}
    if not found:
        return None
    title = f"Alignment and uniformity on {scores.set_name}"
    about = (
        "Alignment is the mean squared distance of a query and a passage that answers it; as a share of the distance "
        "to the nearest passage, 1 is the best, and models can be compared. Uniformity says how evenly passages fill "
        "the space: the more, the better. Up and to the right is better; a training that moves one at the expense of "
        "the other shows here."
    )
    head = ("system", "alignment", "over nearest", "uniformity", f"average {scores.metric.upper()}")
    rows = [
        (name, *(f"{value:.3f}" for value in measured), f"{scores.table[name][AVERAGE].mean:.3f}")
        for name, measured in found.items()
    ]
    chart = Chart(title, about, lambda width: drawn(scores, found, system, width))
    return Section(title, (about,), chart, Table(head, rows), in_short=False)


def drawn(scores: Scores, found: dict[str, Geometry], system: str, width: float) -> Figure:
    """A point for each embedder, the better one further up and to the right; an arrow from the system's start to it."""
    drawing = figure(width, 330)
    panel = axes(drawing, 52, 24, width - 66, 252)
    points = {name: (one.uniformity, one.normalised_alignment) for name, one in found.items()}
    for name, (x, y) in points.items():
        panel.plot([x], [y], "o", markersize=9, color=colour_of(scores, name, system))
    panel.margins(0.25)
    panel.invert_yaxis()
    start = scores.start_of(system) if system else ""
    if start in points and system in points:
        arrow = {"arrowstyle": "->", "color": COLOUR["accent"], "lw": 1.5}
        panel.annotate("", points[system], points[start], arrowprops=arrow)
    panel.set_xlabel("uniformity", loc="right")
    panel.text(0, 1.01, "alignment over nearest", transform=panel.transAxes, va="bottom", color=COLOUR["soft"])
    name_points(panel, points, system)
    return drawing
