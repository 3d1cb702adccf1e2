"""How often a language model put another passage before the one that a query was written for, with examples."""

from __future__ import annotations

import json

from pipeline_tasks.core.lineage.rows import quoted
from pipeline_tasks.report.content import Section, Table
from pipeline_tasks.report.subject import Ask

_EXAMPLES, _LETTERS = 5, 240
_BEHIND = """
SELECT dataset FROM versions JOIN ancestors_of(?) USING (dataset, version) WHERE is_latest AND rows > 0
    AND (dataset = 'relabelled' OR dataset LIKE 'relabelled/%') ORDER BY dataset
"""
_COUNTS = "SELECT count(*) AS n, count(*) FILTER (place > 1) AS changed, count(DISTINCT instruction) AS tasks FROM "
_PLACED = "(SELECT *, list_position(passage_ids, source_passage_id) AS place FROM {}) AS relabelled"
"""Where a query's own passage is today: an erasure takes passages before it, and ``source_rank`` is as it was."""
_PAIRS = """
SELECT pairs.dataset FROM versions JOIN version_inputs USING (dataset, version)
    JOIN versions AS pairs ON pairs.dataset = input_dataset AND pairs.is_latest AND pairs.rows > 0
WHERE versions.dataset = ? AND versions.is_latest AND input_name = 'pairs'
"""
_ORIGINS = "SELECT DISTINCT coalesce(origin, '') AS origin FROM {} SEMI JOIN {} USING (query_id) ORDER BY origin"
_LABELLED = """
SELECT dataset, coalesce(max(value) FILTER (name = 'filtered'), '[]') AS filtered,
    coalesce(max(value) FILTER (name = 'strategy'), 'none') AS strategy
FROM versions LEFT JOIN params USING (dataset, version) WHERE rows_schema = 'labelled' AND is_latest AND rows > 0
GROUP BY dataset ORDER BY dataset
"""
_ALIKE = """
SELECT count(*) AS n, count(*) FILTER (passage_ids[1] = positive_id) AS alike,
    count(*) FILTER (place > 1) AS changed,
    count(*) FILTER (place > 1 AND passage_ids[1] = positive_id) AS changed_alike
FROM {relabelled} JOIN {labelled} USING (query_id)
"""
_EXAMPLE = "SELECT query, coalesce(instruction, '') AS task, left(passages[place], ?) AS before, "
_EXAMPLE += "left(passages[1], ?) AS now FROM "
_FURTHEST = " WHERE place > 1 ORDER BY place DESC, query_id LIMIT ?"


def relabelling_section(ask: Ask, ref: str) -> Section | None:
    """What relabelling changed of what ``ref`` learned from, where it is the latest of its name; None where nothing is.

    Where reference models agreed on positives of the same queries, also how often both ways end at the same passage.

    Source: Gecko, Table 3.
    """
    words, rows = [], []
    for name in (row["dataset"] for row in ask(_BEHIND, ref)):
        view = _PLACED.format(quoted(name))
        (counts,) = ask(_COUNTS + view)
        words.append(
            f"{name}: {counts['changed']:,} of {counts['n']:,} queries ({counts['changed'] / counts['n']:.0%}) have "
            f"another positive than the passage that they were written for; {counts['tasks']:,} distinct tasks."
        )
        words += _agreement(ask, name)
        found = ask(_EXAMPLE + view + _FURTHEST, _LETTERS, _LETTERS, _EXAMPLES)
        rows += [(row["query"], row["task"], row["before"] or "", row["now"] or "") for row in found]
    if not words:
        return None
    head = ("query", "task", "written for", "positive now")
    table = Table(head, rows, frozenset(range(len(head)))) if rows else None
    shown = ["Examples: those whose passage fell furthest."] if rows else []
    return Section("Positives that a language model chose", [*words, *shown], table=table, in_short=False)


def _agreement(ask: Ask, relabelled: str) -> list[str]:
    """How often mutual agreement has the same positive, in a sentence for each dataset that shares queries.

    None where the pairs are gone, whose origins say which positives are agreed on.
    """
    words, pairs = [], [row["dataset"] for row in ask(_PAIRS, relabelled)]
    origins = [row["origin"] for name in pairs for row in ask(_ORIGINS.format(quoted(name), quoted(relabelled)))]
    for labelled, filtered, strategy in (row.values() for row in ask(_LABELLED) if origins):
        (counts,) = ask(_ALIKE.format(relabelled=_PLACED.format(quoted(relabelled)), labelled=quoted(labelled)))
        # Pairs without an origin are always filtered.
        is_agreed = {*origins} <= {*json.loads(filtered), ""} and strategy in ("mutual", "identical")
        if counts["n"] and not is_agreed:
            words.append(
                f"{labelled} has {counts['n']:,} of these queries, which are of {json.dumps(origins)}. Its filtered= "
                f"is {filtered}, its strategy= {strategy}: only mutual or identical, of the origins that filtered= "
                "names, takes what reference models agree on. To compare, rank these pairs and run `foundry run "
                f"mutual_agreement --input pairs={','.join(pairs)} --set strategy=mutual --set 'models=[…]' "
                f"--set 'filtered={json.dumps(origins)}'` (docs/fret.md)."
            )
        elif counts["n"]:
            words.append(
                f"Of {counts['n']:,} queries that {labelled} has too, {counts['alike']:,} "
                f"({counts['alike'] / counts['n']:.0%}) have the positive that the reference models agree on; "
                f"{counts['changed_alike']:,} of the {counts['changed']:,} among them that have another one than the "
                "passage that they were written for."
            )
    return words
