"""``foundry stale``: what was made by code that has changed since."""

from __future__ import annotations

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from pipeline_tasks.cli.inspect import FORMAT, aged, clipped, print_rows, used_store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.lineage.query import ALL_ROWS, query
from pipeline_tasks.core.registry import get_step, step_names

_STALE = """
WITH now AS (SELECT unnest(?::VARCHAR[]) AS step, unnest(?::VARCHAR[]) AS current_version),
below AS (
    SELECT ancestor_dataset AS dataset, ancestor_version AS version, list(
        descendant_dataset || '@' || descendant_version
        ORDER BY made.is_latest DESC, depth, descendant_dataset, descendant_version
    ) AS downstream
    FROM descendants JOIN versions made ON made.dataset = descendant_dataset AND made.version = descendant_version
    GROUP BY ALL
)
SELECT dataset, version, is_latest, step, code_version, current_version, created_at,
    coalesce(downstream, []) AS downstream
FROM versions JOIN now USING (step) LEFT JOIN below USING (dataset, version)
WHERE code_version <> current_version
ORDER BY is_latest DESC, created_at DESC, dataset
"""


def stale_command(fmt: FORMAT = "table") -> None:
    """Versions that a step made before its version= was raised, latest first, and what was made of them."""
    versions = {name: get_step(name).version for name in step_names()}
    found = query(used_store(), _STALE, [list(versions), list(versions.values())], rows=False, max_rows=ALL_ROWS)
    if fmt != "table":
        print_rows(found, fmt)
        return
    if not found.num_rows:
        typer.echo("every version was made by the code as it is")
        return
    names = [Column(name, no_wrap=True) for name in ("dataset", "version", "")]
    table = Table(*names, "made by", "now", "age", "downstream", box=SIMPLE_HEAD)
    for row in found.to_pylist():
        below = row["downstream"]
        steps_below = f"{len(below):,}: {', '.join(below)}" if below else ""
        made_by, now = f"{row['step']} v{row['code_version']}", f"v{row['current_version']}"
        mark = "*" * row["is_latest"]
        table.add_row(row["dataset"], row["version"], mark, made_by, now, aged(row["created_at"]), clipped(steps_below))
    console().print(table)
    todo = {row["step"] for row in found.to_pylist() if row["is_latest"]}
    if todo:
        typer.echo(f"run again, in this order: {', '.join(name for name in step_names() if name in todo)}")
