"""How every chart looks: matplotlib draws it, the page's style sheet gives it colours, so that it is light and dark."""

from __future__ import annotations

import io
import re
import warnings
from html import escape
from typing import TYPE_CHECKING, Any

from pipeline_tasks.core.errors import InputError, installed_with
from pipeline_tasks.report.content import DESK, PHONE, Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROLES = ("ink", "soft", "line", "panel", "accent", "tint", "start", "refused", "muted", "second")
COLOUR = {role: f"#0d0e{16 + i:02x}" for i, role in enumerate(ROLES)}
"""Role -> the colour that stands for it while matplotlib draws; in the page it is the style sheet's ``--<role>``."""
LINES = ("accent", "refused", "second", "start", "muted", "ink")
"""Roles of what is told apart by colour, in order."""
SIZE = 12.5
_TIP = re.compile(r'<g id="tip-(\d+)">')
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.unicode_minus": False,
    "text.color": COLOUR["ink"],
    "axes.titlecolor": COLOUR["ink"],
    "axes.labelcolor": COLOUR["soft"],
    "axes.edgecolor": COLOUR["line"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLOUR["line"],
    "grid.linewidth": 1,
    "xtick.color": COLOUR["line"],
    "ytick.color": COLOUR["line"],
    "xtick.labelcolor": COLOUR["soft"],
    "ytick.labelcolor": COLOUR["soft"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.solid_capstyle": "round",
}


def figure(width: float, height: float) -> Figure:
    """An empty drawing of so many CSS pixels."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72), dpi=72, facecolor="none")


def floor_of(lowest: float, gap: float) -> float:
    """Where an axis of scores begins: a gap below the lowest, and below 0 only where that one is, as p-MRR may be."""
    return lowest - gap if lowest < 0 else max(0.0, lowest - gap)


def axes(into: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at this place in CSS pixels, from the left and the top."""
    whole_width, whole_height = into.get_size_inches() * 72
    box = (left / whole_width, 1 - (top + height) / whole_height, width / whole_width, height / whole_height)
    return into.add_axes(box, facecolor="none")


def svg_of(chart: Chart, key: str) -> str:
    """The chart as SVG elements, one for a phone and one for a desk, each with its name and description.

    Args:
        chart: what is drawn.
        key: unlike that of any other chart of the page: ids begin with it.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(f"charts need matplotlib: {installed_with('steps')}, or ask for --markdown") from error
    drawn = []
    for name, width in (("phone", PHONE), ("desk", DESK)):
        own = f"{key}-{name}"
        with matplotlib.rc_context({**_SETTINGS, "svg.hashsalt": own}):
            drawing = chart.draw(width)
            text = io.StringIO()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the page's fonts draw the texts
                drawing.savefig(text, format="svg", metadata={"Date": None}, facecolor="none")
        drawn.append(_inline(text.getvalue(), chart, own, name))
    return "".join(drawn)


def _inline(svg: str, chart: Chart, own: str, name: str) -> str:
    """One drawing as part of a page: no style of its own, ids of its own, colours of the page."""
    body = svg[svg.index("<g id=") :]
    used = set(re.findall(r"#([\w-]+)", body))
    body = re.sub(r"<[^>]+>", lambda tag: _of_the_page(tag[0], used), body)
    body = _TIP.sub(lambda found: f"<g><title>{escape(chart.tips[int(found[1])])}</title>", body)
    found = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg)
    width, height = found.groups() if found else ("1", "1")
    return (
        f'<svg class="{name}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{own}-title {own}-about">'
        f'<title id="{own}-title">{escape(chart.title)}</title>'
        f'<desc id="{own}-about">{escape(chart.description)}</desc>'
        f"{body}"
    )


def _of_the_page(tag: str, used: set[str]) -> str:
    """One tag without its font, with colours of the page, and with its id if it is of those ``used``."""
    tag = re.sub(r' id="(?!tip-)([^"]*)"', lambda found: found[0] if found[1] in used else "", tag)
    tag = re.sub(r"font-family: [^;\"]*(; )?", "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
    for role, stand_in in COLOUR.items():
        tag = tag.replace(stand_in, f"var(--{role})")
    return tag
