"""What a run of the chain did, read from the lineage: stages, scores and where everything is."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pipeline_tasks.core.lineage.query import query
from pipeline_tasks.core.store import open_store

_STAGES = """
WITH mine AS (SELECT * FROM steps WHERE started_at >= ?::TIMESTAMP AND status = 'complete'),
final AS (SELECT * FROM mine WHERE version IS NOT NULL),
reasons AS (
    SELECT dataset, version, first(reason ORDER BY n DESC, reason) || ' ' || max(n) AS reason
    FROM (SELECT dataset, version, reason, count(*) AS n FROM rejects GROUP BY ALL) GROUP BY ALL
),
known AS (
    SELECT run_id, max(value) FILTER (name = 'rows_in') AS rows_in, max(value) FILTER (name = 'rows_out') AS rows_out,
        max(value) FILTER (name = 'rows_rejected') AS rejected
    FROM counters GROUP BY run_id
)
SELECT f.step, f.dataset || '@' || f.version AS version, k.rows_in::BIGINT AS rows_in, k.rows_out::BIGINT AS rows_out,
    k.rejected::BIGINT AS rejected, r.reason, round(sum(m.duration_s), 1) AS seconds, bool_and(m.reused) AS reused
FROM final f JOIN known k USING (run_id)
LEFT JOIN reasons r ON r.dataset = f.dataset AND r.version = f.version
LEFT JOIN mine m ON m.step = f.step AND m.dataset = f.dataset AND (m.run_id = f.run_id OR m.part_group IS NOT NULL)
GROUP BY f.run_id, f.step, f.dataset, f.version, f.started_at, k.rows_in, k.rows_out, k.rejected, r.reason
ORDER BY f.started_at
"""
_WORK = """
SELECT c.name, sum(c.value)::BIGINT AS value FROM counters c JOIN steps s USING (run_id)
WHERE s.started_at >= ?::TIMESTAMP AND c.name IN ('fetched', 'llm_requests', 'prompt_tokens', 'completion_tokens',
    'texts_encoded', 'optimiser_steps') GROUP BY ALL ORDER BY ALL
"""
_SCORES = """
SELECT e.system, e.intent, e.score, e.n_queries FROM evaluations e JOIN versions v USING (dataset, version)
WHERE v.is_latest AND e.metric = 'ndcg@10' AND e.dataset = 'eval/heldout'
"""
AVERAGE = "average"


def write_report(store: Path, target: Path, started: datetime, seconds: float, console: Console) -> None:
    """Print the stages since ``started`` and the scores, and write the same to ``target`` as Markdown."""
    found = open_store(store)
    since = started.replace(tzinfo=None).isoformat()
    stages = [
        [row["step"], row["version"], *(_number(row[n]) for n in ("rows_in", "rows_out", "rejected"))]
        + [row["reason"] or "", f"{row['seconds']:.1f}", "reused" if row["reused"] else "built"]
        for row in query(found, _STAGES, [since]).to_pylist()
    ]
    head = ["step", "version", "rows in", "rows out", "rejected", "top reason", "seconds", ""]
    scores = query(found, _SCORES).to_pylist()
    work = ", ".join(f"{row['name']} {row['value']:,}" for row in query(found, _WORK, [since]).to_pylist())
    rows_of_work = f"This run took {seconds:.0f} s. Work done in it: {work or 'none, everything was reused'}."
    tables = [("Stages", head, stages), ("NDCG@10 on held-out queries", *_scores(scores))]
    target.write_text(_markdown(tables, rows_of_work), encoding="utf-8")
    for title, columns, rows in tables:
        table = Table(*columns, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print(rows_of_work)
    console.print(f"report    {target}\nlineage   {store / 'lineage.duckdb'}", soft_wrap=True)
    console.print(f"try       FOUNDRY_STORE={store} .venv/bin/foundry ls", soft_wrap=True)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _scores(scores: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Systems down, intents across, best average last."""
    counts = {row["intent"]: row["n_queries"] for row in scores}
    intents = [*sorted(set(counts) - {AVERAGE}), *({AVERAGE} & set(counts))]
    by_system: dict[str, dict[str, float]] = {}
    for row in scores:
        by_system.setdefault(row["system"], {})[row["intent"]] = row["score"]
    ordered = sorted(by_system.items(), key=lambda item: item[1].get(AVERAGE, 0.0))
    head = ["system", *(f"{intent} ({counts[intent]})" for intent in intents)]
    return head, [[name, *(f"{found[intent]:.3f}" for intent in intents)] for name, found in ordered]


def _markdown(tables: list[tuple[str, list[str], list[list[str]]]], work: str) -> str:
    lines = ["# What this run did", "", work, ""]
    for title, head, rows in tables:
        lines += [f"## {title}", ""]
        for cells in (head, ["---"] * len(head), *rows):
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)
