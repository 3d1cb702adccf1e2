"""Datasets as SQL: the latest live rows of each as a view over its Parquet parts, and small rows that are copied in.

Every name that enters the SQL here is quoted, or is one of ours.
"""

# ruff: noqa: S608

from __future__ import annotations

import importlib
import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.codelock.closure import SCHEMAS
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.facts import Rows
from pipeline_tasks.core.manifest import Manifest, Part
from pipeline_tasks.core.parts import part_schema
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store import Store

if TYPE_CHECKING:
    import duckdb

_NAMED = pa.schema([("dataset", pa.string()), ("version", pa.string())])
_RESPONSE = "response_id"
_EVALUATED_COLUMNS = (
    "system", "model_version", "query_id", "intent", "query", "n_relevant", "scores", "passage_ids", "grades",
)  # fmt: skip
_OF_MODELS = (
    (
        "training_curves",
        "training_curve.parquet",
        ("optimiser_step", "epoch", "n_rows", "loss", "learning_rate", "dev_score"),
    ),
    (
        "sampling_trajectories",
        "sampling_trajectory.parquet",
        (
            "optimiser_step", "source", "probability", "n_batches", "influence", "influences", "gradients",
            "deciding_gradients", "n_tokens", "n_deciding_tokens",
        ),
    ),
)  # fmt: skip
"""Table, the file of a model whose rows it has, and their columns."""


def quoted(name: str) -> str:
    """``name`` as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """``text`` as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def path_literal(path: Path | str) -> str:
    """``path`` as a SQL string that DuckDB takes for this path alone, and not for a pattern of others."""
    return literal(re.sub(r"[*?\[]", r"[\g<0>]", str(path)))


def parquet(paths: list[Path], options: str = "") -> str:
    """A ``read_parquet`` call over ``paths``; folders of the store called ``a=b`` are no columns."""
    return f"read_parquet([{', '.join(map(path_literal, paths))}], hive_partitioning = false{options})"


def live_rows_sql(store: Store, manifest: Manifest, only: list[int] | None = None) -> str:
    """A SELECT of the version's live rows: what :class:`~pipeline_tasks.core.versions.Version` reads, as SQL.

    With ``only``, of these parts; empty where they are none.

    Raises:
        InputError: a part is not in the store, or the first one cannot be read.
    """
    columns = set(part_schema(store, manifest.parts[0]).names)  # key columns are in all parts
    removals = [r for r in manifest.removals if r.column in columns]

    def active(index: int) -> tuple[int, ...]:
        return tuple(i for i, r in enumerate(removals) if r.first <= index < r.last)

    selects = []
    for which, indexes in groupby(range(len(manifest.parts)) if only is None else only, key=active):
        paths = [_path(store, manifest.parts[i]) for i in indexes]
        select = f"SELECT * FROM {parquet(paths, ', union_by_name = true')} p"  # a column may have come later
        tests = []
        for column in sorted({removals[i].column for i in which}):
            gone = parquet([_path(store, removals[i].part) for i in which if removals[i].column == column])
            tests.append(f"NOT EXISTS (SELECT 1 FROM {gone} gone WHERE gone.key = p.{quoted(column)})")
        selects.append(select + (f" WHERE {' AND '.join(tests)}" if tests else ""))
    return " UNION ALL BY NAME ".join(selects)


def add_dataset_views(con: duckdb.DuckDBPyConnection, store: Store, latest: list[Manifest], problems: Rows) -> None:
    """One view per dataset of rows over its ``latest`` version, and ``all_<schema>`` for each schema in ``shape``."""
    import duckdb

    members: dict[str, list[str]] = {}
    shown = [m for m in latest if m.rows_schema != FILES]
    store.bring(part.key for m in shown for part in (*m.parts, *(r.part for r in m.removals)))
    for m in shown:
        try:
            select = live_rows_sql(store, m) if m.parts else _no_rows_sql(con, m.rows_schema)
            con.execute(f"CREATE VIEW {quoted(m.dataset)} AS {select}")
        except (duckdb.Error, InputError, OSError, pa.ArrowInvalid) as error:
            problems.append({"key": f"{m.ref}", "problem": f"no view: {error}"[:500]})
            continue
        members.setdefault(m.rows_schema, []).append(m.dataset)
    for (schema,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'shape'").fetchall():
        selects = [f"SELECT * FROM shape.{schema}"]
        selects += [f"SELECT {literal(d)} AS dataset, * FROM {quoted(d)}" for d in members.get(schema, [])]
        con.execute(f"CREATE VIEW all_{schema} AS " + " UNION ALL BY NAME ".join(selects))


def _no_rows_sql(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """A SELECT of no rows in the columns of a row schema, for what has no part that would tell them.

    Raises:
        InputError: no schema has that name.
    """
    known = {schema.name: schema for schema in importlib.import_module(SCHEMAS).ALL}
    if name not in known:
        raise InputError(f"it has no parts, and no row schema is called {name!r}")
    con.register("no_rows", known[name].table())
    columns = con.execute("SELECT column_name, column_type FROM (DESCRIBE no_rows)").fetchall()
    con.unregister("no_rows")
    return f"SELECT {', '.join(f'NULL::{kind} AS {quoted(column)}' for column, kind in columns)} WHERE false"


def add_copied_rows(con: duckdb.DuckDBPyConnection, store: Store, found: list[Manifest], problems: Rows) -> None:
    """Fill ``rejects`` and all else that is copied from Parquet for ``found``; ``parts`` must be filled already."""
    con.register("found", pa.table([[m.dataset for m in found], [m.id for m in found]], schema=_NAMED))
    rejects = _readable(store, [p for m in found for p in m.rejects], problems)
    if rejects:
        con.execute(f"""
            INSERT INTO rejects BY NAME
            SELECT dataset, version, step, row_id, reason, detail
            FROM {parquet(list(rejects.values()), ", filename = true")} r
            JOIN parts ON kind = 'reject' AND sha256 = parse_filename(r.filename, true)
            JOIN versions USING (dataset, version) SEMI JOIN found USING (dataset, version)""")
    scored = [p for m in found if m.rows_schema == "evaluations" for p in m.parts]
    evaluated = _readable(store, scored, problems, _EVALUATED_COLUMNS)
    if evaluated:
        con.execute(f"""
            INSERT INTO evaluated_queries BY NAME
            SELECT dataset, version, {", ".join(_EVALUATED_COLUMNS)}
            FROM {parquet(list(evaluated.values()), ", filename = true")} r
            JOIN parts ON kind = 'part' AND sha256 = parse_filename(r.filename, true)
            SEMI JOIN found USING (dataset, version)""")
    for table, name, columns in _OF_MODELS:
        rows = _readable(store, [p for m in found for p in m.parts if p.name == name], problems, columns)
        if rows:
            con.execute(f"""
                INSERT INTO {table} BY NAME
                SELECT dataset, version, {", ".join(columns)}
                FROM {parquet(list(rows.values()), ", filename = true")} r
                JOIN parts ON parts.name = {literal(name)} AND sha256 = parse_filename(r.filename, true)
                SEMI JOIN found USING (dataset, version)""")
    _add_part_responses(con, store, found, problems)
    con.unregister("found")


def _add_part_responses(con: duckdb.DuckDBPyConnection, store: Store, found: list[Manifest], problems: Rows) -> None:
    """Beside what receipts say: a row names answers that an earlier step has asked for, too."""
    read = "SELECT DISTINCT sha256 FROM parts ANTI JOIN found USING (dataset, version)"
    seen = {sha for (sha,) in con.execute(read).fetchall()}
    for columns, parts in _by_response_columns(store, found).items():
        paths = _readable(store, [p for p in parts if p.sha256 not in seen], problems)
        if not paths:
            continue
        con.execute(f"""
            INSERT INTO part_responses BY NAME
            FROM (
                SELECT DISTINCT parse_filename(filename, true) AS sha256, unnest([{", ".join(columns)}]) AS response_id
                FROM {parquet(list(paths.values()), ", filename = true")}
            ) ANTI JOIN part_responses USING (sha256, response_id)""")
    con.execute("DELETE FROM part_responses WHERE coalesce(response_id, '') = ''")


def _by_response_columns(store: Store, found: list[Manifest]) -> dict[tuple[str, ...], list[Part]]:
    """Parts of versions whose rows name answers, by the columns that do; all parts of a version have one schema."""
    groups: dict[tuple[str, ...], list[Part]] = {}
    for m in found:
        if m.rows_schema == FILES or not m.parts:
            continue
        try:
            names = part_schema(store, m.parts[0]).names
        except (InputError, OSError, pa.ArrowInvalid):
            continue  # it is told where its rows are read
        columns = tuple(name for name in names if name.endswith(_RESPONSE))
        if columns:
            groups.setdefault(columns, []).extend(m.parts)
    return groups


def _readable(store: Store, parts: list[Part], problems: Rows, columns: tuple[str, ...] = ()) -> dict[str, Path]:
    """sha256 -> path of each part that is there and has a Parquet footer with these columns, once each."""
    found: dict[str, Path] = {}
    store.bring(part.key for part in parts)
    for part in parts:
        if part.sha256 in found:
            continue
        try:
            path = _path(store, part)
            if missing := set(columns) - set(pq.read_schema(path).names):
                raise InputError(f"no column {', '.join(sorted(missing))}")
        except (InputError, OSError, pa.ArrowInvalid) as error:
            problems.append({"key": part.key, "problem": f"unreadable part: {error}"[:500]})
            continue
        found[part.sha256] = path
    return found


def _path(store: Store, part: Part) -> Path:
    return store.local_path(part.key)
