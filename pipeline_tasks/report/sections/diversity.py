"""How diverse the instructions are that a model learned from, and whether a check left less of that."""

from __future__ import annotations

from pipeline_tasks.core.lineage.rows import quoted
from pipeline_tasks.evaluation.diversity import GRAMS, SAMPLE, inverse_gram_frequency, shown
from pipeline_tasks.report.content import Section, Table, Version
from pipeline_tasks.report.subject import Ask

_BEHIND = """
SELECT dataset, version FROM versions JOIN ancestors_of(?) USING (dataset, version)
WHERE is_latest AND rows > 0 AND dataset IN (
    SELECT table_name FROM duckdb_columns() WHERE column_name = 'instruction'
) AND NOT regexp_matches(dataset, '^(judged|instructed)/')
ORDER BY depth DESC, dataset
"""
_TOLD = "SELECT count(*) AS n FROM {} WHERE trim(instruction) <> ''"
_DRAWN = "SELECT instruction FROM {} WHERE trim(instruction) <> '' ORDER BY sha256(query_id) LIMIT ?"


def told_behind(ask: Ask, ref: str) -> list[tuple[str, str, int]]:
    """Datasets behind ``ref`` with two instructions or more, the furthest first: name, version, instructions."""
    found = [(row["dataset"], row["version"]) for row in ask(_BEHIND, ref)]
    counted = [(name, version, ask(_TOLD.format(quoted(name)))[0]["n"]) for name, version in found]
    return [(name, version, n) for name, version, n in counted if n > 1]


def diversity_section(ask: Ask, ref: str) -> Section | None:
    """The instructions of what ``ref`` learned from, where it is the latest of its name; None where nothing has two."""
    sources = told_behind(ask, ref)
    if not sources:
        return None
    n_drawn = min(SAMPLE, *(n for _, _, n in sources))
    rows: list[tuple[str | Version, ...]] = []
    for name, version, n in sources:
        texts = [row["instruction"] for row in ask(_DRAWN.format(quoted(name)), n_drawn)]
        shares = (shown(inverse_gram_frequency(texts, words)) for words in GRAMS)
        rows.append((Version(f"{name}@{version}"), f"{n:,}", f"{len(set(texts)):,}", *shares))
    words = [
        f"Of {n_drawn:,} instructions of each, drawn by their ids: how many differ, and the mean of 1 / (instructions "
        "that hold it) over their words, pairs and triples of words in a row. It is 1 where no two share any, and the "
        "more, the more diverse. `foundry diversity` says how near they are to each other in meaning, by a model."
    ]
    head = ("instructions of", "all", "different", "words", "pairs", "triples")
    return Section("Diversity of instructions", words, table=Table(head, rows), in_short=False)
