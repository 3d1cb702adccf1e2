"""How often a language model put another passage before the one that a query was written for, with examples."""

from __future__ import annotations

from pipeline_tasks.report.content import Section, Table
from pipeline_tasks.report.subject import Ask

_EXAMPLES, _LETTERS = 5, 240
_BEHIND = """
SELECT DISTINCT dataset FROM versions JOIN ancestors ON dataset = ancestor_dataset AND version = ancestor_version
WHERE descendant_dataset || '@' || descendant_version = ? AND is_latest AND rows > 0
    AND (dataset = 'relabelled' OR dataset LIKE 'relabelled/%') ORDER BY dataset
"""
_COUNTS = (
    "SELECT count(*) AS n, count(*) FILTER (source_rank > 1) AS changed, count(DISTINCT instruction) AS tasks FROM "
)
_EXAMPLE = "SELECT query, coalesce(instruction, '') AS task, left(passages[source_rank], ?) AS before, "
_EXAMPLE += "left(passages[1], ?) AS now FROM "
_FURTHEST = " WHERE source_rank > 1 ORDER BY source_rank DESC, query_id LIMIT ?"


def relabelling_section(ask: Ask, ref: str) -> Section | None:
    """What relabelling changed of what ``ref`` learned from, where it is the latest of its name; None where nothing is.

    Source: Gecko, Table 3.
    """
    words, rows = [], []
    for name in (row["dataset"] for row in ask(_BEHIND, ref)):
        view = '"' + name.replace('"', '""') + '"'
        (counts,) = ask(_COUNTS + view)
        words.append(
            f"{name}: {counts['changed']:,} of {counts['n']:,} queries ({counts['changed'] / counts['n']:.0%}) have "
            f"another positive than the passage that they were written for; {counts['tasks']:,} distinct tasks."
        )
        found = ask(_EXAMPLE + view + _FURTHEST, _LETTERS, _LETTERS, _EXAMPLES)
        rows += [(row["query"], row["task"], row["before"] or "", row["now"] or "") for row in found]
    if not words:
        return None
    head = ("query", "task", "written for", "positive now")
    table = Table(head, rows, frozenset(range(len(head)))) if rows else None
    shown = ["Examples: those whose passage fell furthest."] if rows else []
    return Section("Positives that a language model chose", [*words, *shown], table=table, in_short=False)
