"""A map of instructions: those that share words are near, and a colour says how far one came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.lineage.rows import quoted
from pipeline_tasks.report.content import DESK, Chart, Section, Table
from pipeline_tasks.report.sections.diversity import told_behind
from pipeline_tasks.report.subject import Ask
from pipeline_tasks.report.theme import COLOUR, LINES, axes, figure
from pipeline_tasks.texts import latent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 200
"""Instructions on the map at most: its table has a row for each."""
_SEED, _FEWEST, _MARKERS = 0, 3, "o^sDvP"
_HELD = "SELECT instruction, {} AS place FROM {} WHERE trim(instruction) <> ''"
_DRAWN = """
SELECT instruction, max(place) AS place, count(*) OVER () AS n_distinct FROM ({})
GROUP BY instruction ORDER BY sha256(instruction) LIMIT ?
"""


def instruction_map_section(ask: Ask, ref: str) -> Section | None:
    """Instructions of what ``ref`` learned from, in the plane; None where fewer than three have words of their own."""
    names = [name for name, _, _ in told_behind(ask, ref)]
    held = [_HELD.format(place, quoted(name)) for place, name in enumerate(names)]
    drawn = ask(_DRAWN.format(" UNION ALL ".join(held)), POINTS) if held else []
    texts, last = [row["instruction"] for row in drawn], [names[row["place"]] for row in drawn]
    of = latent.by_words(texts, _SEED) if len(drawn) >= _FEWEST else np.zeros((1, 1), np.float32)
    varies = float(np.square(of - of.mean(axis=0), dtype=np.float64).sum())
    if not varies:
        return None
    at = latent.plane(of)
    n = drawn[0]["n_distinct"]
    drawn_of = f"{len(drawn):,} of {n:,}, drawn by their hash," if len(drawn) < n else f"All {n:,}"
    about = (
        f"{drawn_of} different instructions by the words that they share: the two leading principal components of "
        f"their vectors (latent semantic analysis), which hold {np.square(at).sum() / varies:.0%} of what differs. "
        "The colour names the last dataset that has the instruction: later steps left it out."
    )
    rows = [(text, name, f"{x:+.3f}", f"{y:+.3f}") for text, name, (x, y) in zip(texts, last, at, strict=True)]
    table = Table(("instruction", "last dataset", "first component", "second"), rows, frozenset({0, 1}))
    title, shown = "Map of instructions", [name for name in names if name in last]
    chart = Chart(title, about, lambda width: _draw(at, [shown.index(name) for name in last], shown, width), texts)
    return Section(title, (about,), chart, table, in_short=False)


def _draw(at: np.ndarray, kinds: Sequence[int], names: Sequence[str], width: float) -> Figure:
    abreast = 3 if width == DESK else 1
    legend = 24 * -(-len(names) // abreast) + 12
    height = min(width, 480)
    drawing = figure(width, height + legend)
    panel = axes(drawing, 8, 4, width - 16, height - 8)
    for number, ((x, y), kind) in enumerate(zip(at, kinds, strict=True)):
        colour, marker = COLOUR[LINES[kind % len(LINES)]], _MARKERS[kind % len(_MARKERS)]
        (point,) = panel.plot([x], [y], marker, color=colour, markersize=7, alpha=0.7, markeredgewidth=0)
        point.set_gid(f"tip-{number}")
        if kinds.index(kind) == number:
            point.set_label(names[kind])
    panel.set_aspect("equal", adjustable="datalim")
    panel.tick_params(labelbottom=False, labelleft=False)
    order = np.argsort(list(dict.fromkeys(kinds)))
    handles, labels = panel.get_legend_handles_labels()
    panel.legend(
        [handles[i] for i in order], [labels[i] for i in order],
        loc="upper left", bbox_to_anchor=(0, 0), ncols=abreast, frameon=False, borderaxespad=0.4,
    )  # fmt: skip
    return drawing
