"""How diverse the instructions are that a model learned from, and whether a check left less of that."""

from __future__ import annotations

from pipeline_tasks.evaluation.diversity import GRAMS, SAMPLE, inverse_gram_frequency, shown
from pipeline_tasks.report.content import Section, Table, Version
from pipeline_tasks.report.subject import Ask

_BEHIND = """
SELECT v.dataset, v.version
FROM versions v JOIN ancestors ON v.dataset = ancestor_dataset AND v.version = ancestor_version
WHERE descendant_dataset || '@' || descendant_version = ? AND v.is_latest AND v.rows > 0 AND v.dataset IN (
    SELECT table_name FROM duckdb_columns() WHERE column_name = 'instruction'
) AND NOT regexp_matches(v.dataset, '^(judged|instructed)/')
GROUP BY v.dataset, v.version ORDER BY max(depth) DESC, v.dataset
"""
_TOLD = "SELECT count(*) AS n FROM {} WHERE trim(instruction) <> ''"
_DRAWN = "SELECT instruction FROM {} WHERE trim(instruction) <> '' ORDER BY sha256(query_id) LIMIT ?"


def diversity_section(ask: Ask, ref: str) -> Section | None:
    """The instructions of what ``ref`` learned from, where it is the latest of its name; None where nothing has two."""
    views = {str(found["dataset"]): found["version"] for found in ask(_BEHIND, ref)}
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in views}
    counts = {name: ask(_TOLD.format(view))[0]["n"] for name, view in quoted.items()}
    told = [name for name, n in counts.items() if n > 1]
    if not told:
        return None
    n_drawn = min(SAMPLE, *(counts[name] for name in told))
    rows: list[tuple[str | Version, ...]] = []
    for name in told:
        texts = [row["instruction"] for row in ask(_DRAWN.format(quoted[name]), n_drawn)]
        shares = (shown(inverse_gram_frequency(texts, n)) for n in GRAMS)
        rows.append((Version(f"{name}@{views[name]}"), f"{counts[name]:,}", f"{len(set(texts)):,}", *shares))
    words = [
        f"Of {n_drawn:,} instructions of each, drawn by their ids: how many differ, and the mean of 1 / (instructions "
        "that hold it) over their words, pairs and triples of words in a row. It is 1 where no two share any, and the "
        "more, the more diverse. `foundry diversity` says how near they are to each other in meaning, by a model."
    ]
    head = ("instructions of", "all", "different", "words", "pairs", "triples")
    return Section("Diversity of instructions", words, table=Table(head, rows), in_short=False)
