"""Facts as Markdown."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any


def table(values: Mapping[str, Any], head: tuple[str, str] = ("", "")) -> list[str]:
    """Lines of a table of two columns, and an empty one; whatever a value holds, it stays in its cell."""
    cells = [(_cell(key), _cell(value)) for key, value in values.items()]
    return [f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {key} | {value} |" for key, value in cells), ""]


def grid(head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Container[int] = ()) -> list[str]:
    """Lines of a table of any columns, and an empty one; those in ``numbers`` are aligned to the right."""
    rule = ["---:" if i in numbers else "---" for i in range(len(head))]
    return [*(f"| {' | '.join(map(_cell, cells))} |" for cells in (head, rule, *rows)), ""]


def sections(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A section with a table for each title that has values; begins with an empty line."""
    lines = [line for title, values in found.items() if values for line in ("", f"## {title}", "", *table(values)[:-1])]
    return "".join(f"{line}\n" for line in lines)


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
