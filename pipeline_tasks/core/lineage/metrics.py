"""The lineage as metrics in Prometheus' text format, for node_exporter's textfile collector or a Pushgateway.

They come from the store, not from a process that must stay up: wherever a step ran, it is counted once.

Source: Prometheus text-based exposition format 0.0.4.
"""

# ruff: noqa: S608 (constants only)

from __future__ import annotations

from pipeline_tasks.core.execution.memo import ROW_COUNTERS
from pipeline_tasks.core.lineage.fold import fold
from pipeline_tasks.core.lineage.query import ALL_ROWS, answer, connect
from pipeline_tasks.core.store import Store

METRICS = (
    (
        "foundry_step_runs_total",
        "counter",
        "Runs of a step that ended; reused: the version was there.",
        "SELECT step, status, coalesce(reused, false)::VARCHAR AS reused, count(*) AS value FROM steps "
        "WHERE status <> 'unfinished' GROUP BY ALL",
    ),
    (
        "foundry_step_runs_unfinished",
        "gauge",
        "Runs of a step that go on, or were killed before they could say how they ended.",
        "SELECT step, count(*) FILTER (status = 'unfinished') AS value FROM steps GROUP BY ALL",
    ),
    (
        "foundry_step_seconds_total",
        "counter",
        "Seconds that runs of a step took.",
        "SELECT step, coalesce(sum(duration_s), 0) AS value FROM steps GROUP BY ALL",
    ),
    (
        "foundry_step_last_success_timestamp_seconds",
        "gauge",
        "When a step last made its version, or found it made.",
        "SELECT step, epoch(max(ended_at)) AS value FROM steps WHERE status = 'complete' AND version IS NOT NULL "
        "GROUP BY ALL",
    ),
    (
        "foundry_step_peak_memory_bytes",
        "gauge",
        "Largest memory of a run of a step.",
        "SELECT step, max(peak_memory_bytes) AS value FROM steps WHERE peak_memory_bytes IS NOT NULL GROUP BY ALL",
    ),
    (
        "foundry_step_counter_total",
        "counter",
        "What steps count: prompt_tokens, cost_usd, ...; rows_in, rows_out, rows_rejected where a run made a version.",
        "SELECT c.step, name, sum(value) AS value FROM counters c JOIN steps s USING (run_id) "
        f"WHERE name NOT IN {ROW_COUNTERS} OR (part_group IS NULL AND NOT coalesce(reused, false)) GROUP BY ALL",
    ),
    (
        "foundry_dataset_rows",
        "gauge",
        "Rows of a dataset's latest version.",
        "SELECT dataset, rows AS value FROM versions WHERE is_latest AND rows IS NOT NULL",
    ),
    (
        "foundry_dataset_bytes",
        "gauge",
        "Bytes of a dataset's latest version.",
        "SELECT dataset, bytes AS value FROM versions WHERE is_latest AND bytes IS NOT NULL",
    ),
    (
        "foundry_dataset_rejects",
        "gauge",
        "Refused rows of a dataset's latest version.",
        "SELECT dataset, reason, count(*) AS value FROM rejects JOIN versions USING (dataset, version) "
        "WHERE is_latest GROUP BY ALL",
    ),
    (
        "foundry_lineage_problems",
        "gauge",
        "Files of the store that the lineage could not read.",
        "SELECT count(*) AS value FROM problems",
    ),
)
"""Name, type, help, and the SELECT whose column ``value`` is the sample and whose others are its labels."""


def exposition(store: Store) -> str:
    """All metrics of a store, of one moment; a counter never goes back as long as no event is deleted."""
    lines = []
    with connect(fold(store, rows=False), store.folder / "objects") as con:
        for name, kind, meaning, sql in METRICS:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            for row in answer(con, f"{sql} ORDER BY ALL", max_rows=ALL_ROWS).to_pylist():
                value = row.pop("value")
                labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in row.items())
                lines.append(f"{name}{{{labels}}} {float(value)!r}" if labels else f"{name} {float(value)!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: object) -> str:
    return str(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
