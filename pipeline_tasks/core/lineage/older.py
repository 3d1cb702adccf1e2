"""A query's story where the latest versions have it no longer: as the versions tell it that belong with its own."""

# ruff: noqa: S608 (names are quoted, the SELECTs are ours)

from __future__ import annotations

import math
import time
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.compare import read_alike
from pipeline_tasks.core.lineage.reader import Ask, Reader
from pipeline_tasks.core.lineage.rows import literal, live_rows_sql
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest

_PAIRS = "SELECT dataset, version FROM versions WHERE rows_schema = 'pairs' ORDER BY created_at DESC, dataset"
_KIN = """
    WITH RECURSIVE up AS (
        SELECT $1 AS dataset, $2 AS version
        UNION SELECT source_dataset, source_version FROM up JOIN made_from USING (dataset, version)
    ), down AS (
        SELECT $1 AS dataset, $2 AS version
        UNION SELECT m.dataset, m.version
        FROM down d JOIN made_from m ON m.source_dataset = d.dataset AND m.source_version = d.version
    )
    SELECT DISTINCT ON (dataset) dataset, version, rows_schema
    FROM versions JOIN (FROM up UNION FROM down) USING (dataset, version) ORDER BY dataset, created_at DESC"""
"""A version, what it was made from and what was made of it: the newest of each dataset."""
_SHAPES = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'shape'"


def query_story(reader: Reader, ask: Ask, query_id: str, within_s: float | None = None) -> dict[str, Any] | None:
    """The row of ``trace_query``, of the latest versions or else of the newest that have the query and its document.

    ``found_in`` is None for the former, else the version of pairs whose row it is. None where no version has the query.

    Args:
        reader: of the store.
        ask: its question, as within ``reader.asking``.
        query_id: of the query.
        within_s: how long older versions are looked through; then none of a bucket's is, whose parts must be brought.

    Raises:
        InputError: they took longer, and the latest versions do not have the query.
    """
    row = next(iter(ask("FROM trace_query(?)", query_id)), None)
    if row and (row["url"] or not row["doc_id"]):
        return row | {"found_in": None}
    is_here = isinstance(reader.store, LocalStore)
    try:
        found_in = _newest_with(reader, ask, query_id, within_s) if is_here or within_s is None else None
    except InputError:
        if row is None:
            raise
        found_in = None
    if not found_in:
        return row and row | {"found_in": None}
    (older,) = ask(f"WITH {_views(reader, ask, found_in)} FROM trace_query(?)", query_id)
    return older | {"found_in": str(found_in)} if older["url"] or not row else row | {"found_in": None}


def _newest_with(reader: Reader, ask: Ask, query_id: str, within_s: float | None) -> Ref | None:
    """The newest version of pairs that has the query; parts that versions share are searched once."""
    searched: set[tuple[str, tuple[str, ...]]] = set()
    until = time.monotonic() + within_s if within_s else math.inf
    for found in ask(_PAIRS):
        if time.monotonic() > until:
            raise InputError(f"no query {query_id!r} in the newest versions; `foundry trace` looks through all of them")
        m = load_manifest(reader.store, Ref(**found))
        parts = read_alike(m)
        select = _live(reader, m, [i for i, part in enumerate(parts) if part not in searched])
        searched.update(parts)
        if select and ask(f"SELECT 1 FROM ({select}) WHERE query_id = ? LIMIT 1", query_id):
            return m.ref
    return None


def _views(reader: Reader, ask: Ask, found_in: Ref) -> str:
    """What ``trace_query`` reads, as common table expressions over the versions that belong together with one."""
    kin = ask(_KIN, found_in.dataset, found_in.version)
    selects = {row["table_name"]: [f"SELECT * FROM shape.{row['table_name']}"] for row in ask(_SHAPES)}
    for row in kin:
        if row["rows_schema"] in selects:
            m = load_manifest(reader.store, Ref(dataset=row["dataset"], version=row["version"]))
            if select := _live(reader, m, list(range(len(m.parts)))):
                selects[row["rows_schema"]].append(f"SELECT {literal(m.dataset)} AS dataset, * FROM ({select})")
    of_kin = ", ".join(f"({literal(row['dataset'])}, {literal(row['version'])})" for row in kin)
    views = [f"all_{schema} AS ({' UNION ALL BY NAME '.join(of_it)})" for schema, of_it in selects.items()]
    views.append(f"versions AS (SELECT * REPLACE ((dataset, version) IN ({of_kin}) AS is_latest) FROM main.versions)")
    return ", ".join(views)


def _live(reader: Reader, m: Manifest, parts: list[int]) -> str:
    """A SELECT of the live rows in ``parts``; empty where there are none, or where they cannot be read any more."""
    if not parts:
        return ""
    try:
        reader.store.bring(part.key for part in (*(m.parts[i] for i in parts), *(r.part for r in m.removals)))
        return live_rows_sql(reader.store, m, parts)
    except (InputError, OSError, pa.ArrowInvalid):
        return ""
