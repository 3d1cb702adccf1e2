"""All that is known of one version: manifest, runs, counters, cost, rejects, licences and a few of its rows."""

# ruff: noqa: S608 (constants only)

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.memo import ROW_COUNTERS
from pipeline_tasks.core.lineage.facts import licence_rows
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.parts import part_schema
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.versions import Version

MOST_CHARS = 400
MOST_ITEMS = 8
_MOST_PARTS = 200
_LARGEST_EXACT = 2**53
"""Whole numbers beyond it a browser rounds."""
_RUNS = """
    SELECT run_id, status, started_at, ended_at, duration_s, reused, peak_memory_bytes, part_group, error FROM steps
    WHERE dataset = ? AND version = ? ORDER BY started_at DESC LIMIT 20"""
_TOTALS = """
    SELECT count(*) AS n_runs, sum(duration_s) AS seconds, max(peak_memory_bytes) AS peak_memory_bytes
    FROM work w JOIN steps USING (run_id) WHERE w.dataset = ? AND w.version = ?"""
_COUNTERS = """
    SELECT name, sum(value) AS value
    FROM work w JOIN last_builds b USING (dataset, version)
    JOIN steps s ON s.run_id = w.run_id JOIN counters c ON c.run_id = w.run_id
    WHERE dataset = $1 AND version = $2 AND (
        w.run_id = b.run_id
        OR (s.version IS NULL AND name NOT IN $3 AND (built_before IS NULL OR s.started_at > built_before))
    )
    GROUP BY name ORDER BY name"""
_REJECTS = """
    SELECT reason, count(*) AS n, arg_min({'row_id': row_id, 'detail': left(detail, 400)}, row_id, 5) AS samples
    FROM rejects WHERE dataset = ? AND version = ? GROUP BY reason ORDER BY n DESC, reason"""
_MADE = """
    SELECT DISTINCT dataset || '@' || version AS ref FROM version_inputs
    WHERE regexp_replace(input_dataset, '/rejects$', '') = ? AND input_version = ? ORDER BY ref"""
_OTHERS = """
    SELECT dataset || '@' || version AS ref, created_at, is_latest FROM versions
    WHERE dataset = ? ORDER BY created_at DESC LIMIT 100"""


def detail(reader: Reader, ref: Ref, n_rows: int = 10) -> dict[str, Any]:
    """The version's whole story, its rows cut to what fits a page; of ``<dataset>/rejects`` it is that of the dataset.

    ``seconds`` are those of all runs that did work for it, as the view ``work`` has them; counters are those of the
    build that ``last_builds`` has, and of what was done for it since the build before. The rows that it was made from
    and has are counted by the build alone, as runs over groups of its parts saw the same rows.
    ``cost`` is of all paid answers behind the version and what it was made from; ``problem`` says why there are no rows
    where they cannot be read.

    Raises:
        InputError: the version is not in the store.
        TransientError: it is not in the lineage, also where this is brought up to date.
    """
    version = Version.open(reader.store, ref)
    m = version.manifest
    own = m.ref.of_rows
    name = (own.dataset, own.version)
    for fresh in (False, True):
        with reader.asking(rows=False, fresh=fresh) as ask:
            if not (cost := ask("FROM cost_of(?)", str(own))):
                continue
            found = {
                "ref": str(m.ref),
                "manifest": _manifest(m),
                "runs": ask(_RUNS, *name),
                "totals": ask(_TOTALS, *name)[0],
                "counters": ask(_COUNTERS, *name, ROW_COUNTERS),
                "cost": cost[0],
                "rejects": ask(_REJECTS, *name),
                "made": [row["ref"] for row in ask(_MADE, *name)],
                "versions": ask(_OTHERS, own.dataset),
                "licences": licence_rows(m),
            }
        return found | _readable_sample(version, n_rows)
    raise TransientError(f"the lineage does not have {own}; try again in a few seconds, or look at its table problems")


def _manifest(m: Manifest) -> dict[str, Any]:
    found = m.model_dump(mode="json")
    for name in ("parts", "removals", "rejects"):
        found[f"n_{name}"] = len(found[name])
        found[name] = found[name][:_MOST_PARTS]
    return found | {"size_bytes": m.size_bytes}


def _readable_sample(version: Version, n_rows: int) -> dict[str, Any]:
    try:
        return _sample(version, n_rows) | {"problem": ""}
    except InputError as error:
        return {"columns": [], "rows": [], "problem": str(error)}


def _sample(version: Version, n_rows: int) -> dict[str, Any]:
    """Columns and first rows; bytes are not read."""
    m = version.manifest
    index = next((i for i, part in enumerate(m.parts) if part.rows), None)
    if m.rows_schema == FILES or index is None:
        return {"columns": [], "rows": []}
    schema = part_schema(version.store, m.parts[index])
    read = [field.name for field in schema if not _is_binary(field.type)]
    rows = next(iter(version.batches(read, n_rows, [index])), pa.table({})).to_pylist()
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in schema],
        "rows": [{name: clipped(value) for name, value in row.items()} for row in rows],
    }


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def clipped(value: Any) -> Any:
    """``value`` as JSON that fits a page: long texts and lists cut, bytes counted, what is no number there as text."""
    if isinstance(value, str):
        return value if len(value) <= MOST_CHARS else value[:MOST_CHARS] + "…"
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    if isinstance(value, dict):
        return {str(name): clipped(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        more = [f"… {len(value) - MOST_ITEMS:,} more"] if len(value) > MOST_ITEMS else []
        return [clipped(item) for item in value[:MOST_ITEMS]] + more
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else str(value)
    exact = isinstance(value, int) and abs(value) <= _LARGEST_EXACT
    return value if value is None or exact else str(value)
