"""What charts and tables of a report share: a system's name and where it stands, its colour, its score in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline_tasks.evaluation.scores import Score, Scores
from pipeline_tasks.report.theme import COLOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

_LETTER = 7.4
_SIDES = (
    ("left", 9, 0), ("right", -9, 0), ("center", 0, 14), ("center", 0, -14), ("left", 7, 12), ("left", 7, -12),
    ("right", -7, 12), ("right", -7, -12), ("center", 0, 28), ("center", 0, -28),
)  # fmt: skip
"""Where a name may stand beside its point: alignment, and CSS pixels to the right and up."""


def interval_text(score: Score) -> str:
    """``0.612 (0.57–0.65)``, ``-0.108 (-0.12 to -0.09)``."""
    return f"{score.mean:.3f} ({score.low:.2f}{'–' if score.low >= 0 else ' to '}{score.high:.2f})"


def colour_of(scores: Scores, system: str, subject: str) -> str:
    """The subject's own colour, its start's, and one for all others."""
    if system == subject:
        return COLOUR["accent"]
    return COLOUR["start"] if subject and system == scores.start_of(subject) else COLOUR["muted"]


def label_width(names: Sequence[str], width: float) -> float:
    """What names at the left of a drawing need; long ones are cut there."""
    return min(_LETTER * max(map(len, names)) + 10, 0.47 * width, 26 * _LETTER + 10)


def shortened(name: str, width: float) -> str:
    """A system's name, cut in its middle where it has no room."""
    most = int((width - 10) / _LETTER)
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2 - 1) :]}"


def name_points(panel: Axes, points: dict[str, tuple[float, float]], system: str, levels: Sequence[float] = ()) -> None:
    """Write each name where it covers no point, no level and no other name; the subject's chooses first.

    A name that would cover another is left to the table; the subject's is always there.
    """
    at = {name: tuple(map(float, panel.transData.transform(point))) for name, point in points.items()}
    edges = panel.get_window_extent()
    crossing = [float(panel.transData.transform((1, level))[1]) for level in levels]
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in at.values()]
    taken += [(edges.x0, y - 2, edges.x1, y + 2) for y in crossing]
    for name in sorted(at, key=lambda n: (n != system, -at[n][1])):
        long, (x, y) = 7.2 * len(name), at[name]
        boxes = []
        for align, right, up in _SIDES:
            left = x + right - {"left": 0, "right": long, "center": long / 2}[align]
            boxes.append((left, y + up - 7, left + long, y + up + 7))
        inside = [_inside(box, edges) for box in boxes]
        free = [not any(_meet(box, other) for other in taken) for box in boxes]
        best = max(range(len(boxes)), key=lambda side: (inside[side], free[side], -side))
        if name != system and not free[best]:
            continue
        taken.append(boxes[best])
        align, right, up = _SIDES[best]
        panel.annotate(
            name, points[name], (right, up), textcoords="offset points", ha=align, va="center", color=COLOUR["ink"],
            fontweight="bold" if name == system else "normal",
        )  # fmt: skip


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _inside(box: tuple[float, ...], edges: Bbox) -> bool:
    return box[0] >= edges.x0 and box[2] <= edges.x1 + 12
