"""What a run of the chain did, read from the lineage: stages, scores and where everything is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline_tasks.core.lineage.query import query
from pipeline_tasks.core.store import Store
from pipeline_tasks.demo.result import SET, Shown, result_of
from pipeline_tasks.report.write import write_report

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
HEAD = ["step", "version", "rows in", "rows out", "rejected", "top reason", "seconds", ""]
_WORK = """
SELECT c.name, sum(c.value)::BIGINT AS value FROM counters c JOIN steps s USING (run_id)
WHERE s.started_at >= ?::TIMESTAMP AND c.name IN ('fetched', 'llm_requests', 'prompt_tokens', 'completion_tokens',
    'texts_encoded', 'optimiser_steps') GROUP BY ALL ORDER BY ALL
"""


class Report:
    """What a run did, told as it goes and written down at its end.

    Args:
        store: where its datasets are.
        home: folder for ``report.md`` and ``demo.json``.
        started: when it began; what was made before is not its work.
        console: where it is told.
    """

    def __init__(self, store: Store, home: Path, started: datetime, console: Console) -> None:
        self._store, self._home, self._started, self._console = store, home, started, console
        self._told = 0

    def show_stages(self) -> None:
        """The stages that ended since they were last shown."""
        rows = self._stages()
        self._print(Shown("Stages", HEAD, rows[self._told :]))
        self._told = len(rows)

    def finish(self, size: str) -> None:
        """The scores on the judged questions, where everything is, and what was gained."""
        result = result_of(self._store, size)
        seconds = (datetime.now(UTC) - self._started).total_seconds()
        work = ", ".join(f"{row['name']} {row['value']:,}" for row in self._rows(_WORK))
        said = f"This run took {seconds:.0f} s. Work done in it: {work or 'none, everything was reused'}."
        tables = [Shown("Stages", HEAD, self._stages()), result.table]
        file = self._home / "report.md"
        file.write_text(_markdown(tables, said, result.in_words), encoding="utf-8")
        (self._home / "demo.json").write_text(json.dumps({"seconds": round(seconds)} | result.facts) + "\n", "utf-8")
        page = self._home / "report.html"
        write_report(self._store, page, SET)
        self._print(result.table)
        self._say(said)
        self._say(f"report    {page.as_uri()}\nstages    {file}\nlineage   {self._home / 'store' / 'lineage.duckdb'}")
        self._say(f"try       FOUNDRY_STORE={self._home / 'store'} .venv/bin/foundry ls")
        self._say(result.in_words)

    def _stages(self) -> list[list[str]]:
        return [
            [row["step"], row["version"], *(_number(row[n]) for n in ("rows_in", "rows_out", "rejected"))]
            + [row["reason"] or "", f"{row['seconds']:.1f}", "reused" if row["reused"] else "built"]
            for row in self._rows(_STAGES)
        ]

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        return query(self._store, sql, [self._started.replace(tzinfo=None).isoformat()]).to_pylist()

    def _print(self, shown: Shown) -> None:
        shown = shown.within(self._console.width)
        table = Table(*shown.head, title=shown.title, title_justify="left")
        for row in shown.rows:
            table.add_row(*row)
        self._console.print(table)

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _markdown(tables: list[Shown], work: str, last: str) -> str:
    lines = ["# What this run did", "", work, ""]
    for shown in tables:
        lines += [f"## {shown.title}", ""]
        for cells in (shown.head, ["---"] * len(shown.head), *shown.rows):
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join([*lines, last, ""])
