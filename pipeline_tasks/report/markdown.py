"""A report as Markdown, short enough for a pull request: the answer and the tables that bear it out."""

from __future__ import annotations

from html import escape

from pipeline_tasks.core.markdown import grid
from pipeline_tasks.report.content import Report, Section, Version


def markdown(report: Report) -> str:
    """The report without its charts and queries."""
    lines = [f"# {_plain(report.title)}", ""]
    lines += [line for words in report.answer for line in (_plain(words), "")]
    lines += [f"- {label}: `{version.ref}` {_plain(note)}".rstrip() for label, version, note in report.facts]
    for _, sections in report.groups:
        for section in sections:
            lines += _section(section)
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> list[str]:
    table = section.table
    if table is None or not section.in_short:
        return []
    numbers = set(range(len(table.head))) - table.texts
    rows = [[f"`{value.ref}`" if isinstance(value, Version) else _plain(value) for value in row] for row in table.rows]
    return ["", f"## {_plain(section.title)}", "", *grid([_plain(name) for name in table.head], rows, numbers)[:-1]]


def _plain(text: str) -> str:
    """``text`` on one line, with nothing in it that Markdown would take for HTML."""
    return escape(" ".join(text.split()), quote=False)
