"""A report as one HTML file that asks nobody for anything: style and charts are in it, and there is no program."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pipeline_tasks import __version__
from pipeline_tasks.core.errors import InputError, installed_with
from pipeline_tasks.report.content import Report, Section
from pipeline_tasks.report.theme import svg_of

LINEAGE = "http://127.0.0.1:8080/lineage/"
"""Where ``make ui`` and ``make up`` have the lineage page."""
_FILES = Path(__file__).with_name("page")


def page(report: Report, lineage: str = LINEAGE) -> str:
    """The report as HTML. Whatever a text holds, it stays text.

    Args:
        report: what is shown.
        lineage: address of the lineage page, to which versions and passages lead.

    Raises:
        InputError: what draws charts or fills the page is not installed, or ``lineage`` is no address of the web.
    """
    try:
        from jinja2 import Environment, FileSystemLoader
        from markupsafe import Markup
    except ImportError as error:
        raise InputError(f"a page needs jinja2: {installed_with('steps')}, or ask for --markdown") from error
    if not lineage.startswith(("http://", "https://")):
        raise InputError(f"the lineage page at {lineage!r} is no address: it begins with http:// or https://")
    rooms = Environment(autoescape=True, loader=FileSystemLoader(_FILES), trim_blocks=True)
    rooms.filters["part"] = lambda text: quote(text, safe="")
    groups = [
        (heading, [_shown(section, f"s{i}-{j}", first=i == 0) for j, section in enumerate(sections)])
        for i, (heading, sections) in enumerate(report.groups)
    ]
    for section in (section for _, sections in groups for section in sections):
        section["drawing"] = Markup(section["drawing"])  # noqa: S704 (matplotlib's, and our names in it are escaped)
    return rooms.get_template("report.html").render(
        report=report,
        groups=groups,
        lineage=lineage.rstrip("/") + "/",  # without it Airflow answers, not the page
        release=__version__,
        style=Markup((_FILES / "style.css").read_text(encoding="utf-8")),  # noqa: S704 (a file of this package)
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _shown(section: Section, key: str, first: bool) -> dict[str, Any]:
    drawing = svg_of(section.chart, key) if section.chart else ""
    short = section.title.partition(" on ")[0]
    return {"found": section, "key": key, "short": short, "drawing": drawing, "first": first}
