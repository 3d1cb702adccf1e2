"""Size against score: what a system costs to run, and what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.evaluation.scores import AVERAGE, Scores
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.sizes import SIZES
from pipeline_tasks.report.content import Chart, Section, Table
from pipeline_tasks.report.names import colour_of, interval_text, name_points
from pipeline_tasks.report.theme import COLOUR, axes, figure, floor_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def size_section(scores: Scores, system: str) -> Section | None:
    """Parameters against average score; None where fewer than two systems have a known size."""
    sizes = {name: n for name in scores.table if (n := n_params(name, _start(scores, name)))}
    shown = {name: n for name, n in sizes.items() if not scores.models[name] or name == system}
    if len(shown) < 2:
        return None
    title = f"Size against score on {scores.set_name}"
    about = f"Average {scores.metric.upper()} over intents against parameters, on a logarithmic scale."
    if "bm25" in scores.table:
        about += f" BM25, which has none, is at {scores.table['bm25'][AVERAGE].mean:.3f}."
    rows = [
        (name, f"{sizes[name] / 1e6:,.1f}" if name in sizes else "", interval_text(row[AVERAGE]))
        for name, row in scores.table.items()
    ]
    table = Table(("system", "parameters, millions", f"average {scores.metric.upper()}"), rows)
    chart = Chart(title, about, lambda width: _draw(scores, system, shown, width))
    return Section(title, (about,), chart, table, in_short=False)


def _start(scores: Scores, system: str) -> str:
    return scores.untrained if system.endswith("/untrained") else scores.starts.get(scores.models[system], "")


def n_params(system: str, start: str = "") -> int:
    """Parameters of the system's model; 0 where that is not known.

    Where it was trained here they are those of its ``start``, if that is told, else of what its size starts from.
    """
    size = system.partition("/")[0]
    try:
        return get(start or (SIZES[size].backbone if size in SIZES else system)).n_params
    except InputError:
        return 0


def _draw(scores: Scores, system: str, sizes: dict[str, int], width: float) -> Figure:
    drawing = figure(width, 330)
    panel = axes(drawing, 44, 14, width - 58, 266)
    points = {name: (n / 1e6, scores.table[name][AVERAGE].mean) for name, n in sizes.items()}
    panel.set_xscale("log")
    low, high = min(x for x, _ in points.values()), max(x for x, _ in points.values())
    panel.set_xlim(low / 2, high * 2)
    heights = [y for _, y in points.values()]
    low_end, high_end = floor_of(min(heights), 0.08), min(1, max(heights) + 0.08)
    levels = [scores.table["bm25"][AVERAGE].mean] if "bm25" in scores.table else []
    levels = [level for level in levels if low_end < level < high_end]
    for level in levels:
        panel.axhline(level, color=COLOUR["muted"], linestyle=(0, (4, 4)), linewidth=1.5)
    panel.set_ylim(low_end, high_end)
    start = scores.start_of(system) if system else ""
    if start in points and system in points:
        (x, y), (to_x, to_y) = points[start], points[system]
        panel.annotate("", (to_x, to_y), (x, y), arrowprops={"arrowstyle": "->", "color": COLOUR["accent"], "lw": 1.5})
    for name, (x, y) in points.items():
        panel.plot([x], [y], "o", markersize=9, color=colour_of(scores, name, system))
    ticks = [t for t in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000) if low / 2 <= t <= high * 2]
    panel.set_xticks(ticks, [f"{t / 1000:g}B" if t >= 1000 else f"{t}M" for t in ticks])
    panel.minorticks_off()
    panel.set_xlabel("parameters", loc="right")
    name_points(panel, points, system, levels)
    return drawing
