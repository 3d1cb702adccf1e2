"""``foundry ls``, ``show`` and ``sql``: what is in the store."""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.events import PREFIX as EVENTS
from pipeline_tasks.core.licences import is_non_commercial
from pipeline_tasks.core.lineage.query import ALL_ROWS, query
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parts import BODY, part_schema
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store, open_store
from pipeline_tasks.core.versions import Version

_SHORT = 80
FORMAT = Annotated[Literal["table", "csv", "json"], typer.Option("--format", help="output format")]
DATASET = Annotated[
    str, typer.Argument(metavar="DATASET[@VERSION]", help="a dataset, such as passages or mtt/0.75@latest")
]


def store() -> Store:
    """The store of the settings."""
    return open_store()


def used_store() -> Store:
    """The store of the settings, for whoever only looks at it or takes from it.

    Raises:
        InputError: no step has run on it: from cron, or in another folder, it is another than was meant.
    """
    found = store()
    if not any(next(iter(found.keys(kind)), None) for kind in ("refs", EVENTS)):
        raise InputError(
            f"no step has run on the store {found} yet: run one, or set FOUNDRY_STORE to where steps have run"
        )
    return found


def clipped(value: Any, width: int = _SHORT) -> str:
    """``value`` on one line of at most ``width`` characters, safe to print: no markup, no codes of a terminal."""
    text = " ".join((f"<{len(value):,} bytes>" if isinstance(value, bytes) else str(value)).split())
    text = "".join(filter(str.isprintable, text))
    return escape(text if len(text) <= width else text[: width - 1] + "…")


def sized(size_bytes: float) -> str:
    """Bytes as a person reads them, in powers of 1,024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def aged(created_at: datetime) -> str:
    """How long ago ``created_at`` (UTC, without zone) was."""
    seconds = (datetime.now(UTC).replace(tzinfo=None) - created_at).total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def ls_command(
    dataset: Annotated[
        str, typer.Argument(metavar="[DATASET]", help="only this dataset, or all below this prefix")
    ] = "",
) -> None:
    """Versions, newest first: rows, parts, size, age, the step that made each; * is the latest, NC non-commercial."""
    sql = """SELECT *, (dataset, version) IN (SELECT (dataset, version) FROM licences WHERE non_commercial) AS marked
             FROM versions WHERE ? IN ('', dataset) OR starts_with(dataset, ? || '/')
             ORDER BY created_at DESC, dataset"""
    rows = query(used_store(), sql, [dataset, dataset], rows=False, max_rows=ALL_ROWS).to_pylist()
    if dataset and not rows:
        raise InputError(f"{dataset!r} is not in the store {settings().store}; `foundry ls` lists what is")
    numbers = [Column(name, justify="right") for name in ("rows", "parts", "size", "age")]
    names = [Column(name, no_wrap=True) for name in ("dataset", "version", "")]
    table = Table(*names, *numbers, "made by", box=SIMPLE_HEAD)
    for row in rows:
        mark = "*" * row["is_latest"] + " NC" * row["marked"]
        counts = (f"{row['rows']:,}", f"{row['parts']:,}", sized(row["bytes"]), aged(row["created_at"]))
        table.add_row(row["dataset"], row["version"], mark, *counts, f"{row['step']} v{row['code_version']}")
    console().print(table)


def show_command(name: DATASET) -> None:
    """One version: its manifest, its schema, where it came from and five rows."""
    version = Version.open(store(), Ref.parse(name))
    m, out = version.manifest, console()
    out.print(f"[bold]{m.ref}[/bold]  {m.rows:,} rows in {len(m.parts):,} parts, {sized(m.size_bytes)}")
    out.print(f"made by {m.step} v{m.code_version}; rows of schema {m.rows_schema}, key {m.key}")
    withdrawn, refused = sum(r.part.rows for r in m.removals), sum(p.rows for p in m.rejects)
    out.print(f"{withdrawn:,} removed keys, {refused:,} rejects")
    for model, licence in m.licences.items():
        mark = "  [bold red]non-commercial[/bold red]" if is_non_commercial(licence) else ""
        out.print(f"  made with {clipped(model)}: {clipped(licence)}{mark}")
    for key, value in m.params.items():
        out.print(f"  {key} = {clipped(value)}")
    for key, refs in m.inputs.items():
        out.print(f"  from {key}: {', '.join(refs)}")
    _print_ancestors(m.ref, out)
    if m.rows_schema == FILES:
        files = Table("file", "size", "sha256")
        for part in m.parts:
            files.add_row(clipped(part.name), sized(part.size_bytes), part.sha256[:16])
        out.print(files)
    elif m.parts:
        _print_rows(version, out)


def _print_ancestors(ref: Ref, out: Console) -> None:
    sql = "SELECT dataset || '@' || version AS name, depth FROM ancestors_of(?) ORDER BY depth, name"
    for row in query(store(), sql, [str(ref.of_rows)], rows=False, max_rows=ALL_ROWS).to_pylist():
        out.print(f"  {'  ' * row['depth']}← {clipped(row['name'])}")


def _print_rows(version: Version, out: Console) -> None:
    index = next((i for i, part in enumerate(version.manifest.parts) if part.rows), 0)
    columns = part_schema(version.store, version.manifest.parts[index])
    rows = version.part(index, [field.name for field in columns if field.type != BODY]).slice(0, 5)
    schema = Table("column", "type", *(f"row {i + 1}" for i in range(rows.num_rows)))
    for field in columns:
        values = rows[field.name].to_pylist() if field.type != BODY else ["a file"] * rows.num_rows
        schema.add_row(clipped(field.name), clipped(field.type), *(clipped(value, 40) for value in values))
    out.print(schema)


def sql_command(
    sql: Annotated[str, typer.Argument(metavar="SELECT", help="one SELECT; `SHOW TABLES` lists what can be asked")],
    fmt: FORMAT = "table",
    max_rows: Annotated[int, typer.Option(min=1, help="rows printed at most")] = 10_000,
) -> None:
    """Ask the lineage database, read-only, after folding everything finished into it."""
    answer = query(used_store(), sql, max_rows=max_rows + 1)
    print_rows(answer.slice(0, max_rows), fmt)
    if answer.num_rows > max_rows:
        typer.echo(f"only the first {max_rows:,} rows are shown; raise --max-rows for more", err=True)


def print_rows(answer: pa.Table, fmt: str) -> None:
    """Rows for a terminal or for another program; ``fmt`` is table, csv or json."""
    if fmt == "csv":
        _print_csv(answer.column_names, answer.to_pylist())
    elif fmt == "json":
        typer.echo(_as_json(answer.to_pylist(), indent=1))
    else:
        table = Table(*map(clipped, answer.column_names))
        for row in answer.to_pylist():
            table.add_row(*("" if value is None else clipped(value) for value in row.values()))
        console().print(table)


def _print_csv(columns: list[str], rows: list[dict[str, Any]]) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_as_cell(value) for value in row.values()] for row in rows)


def _as_cell(value: Any) -> Any:
    return _as_json(value) if isinstance(value, list | dict) else value


def _as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, default=str, indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    """``value`` with ``nan`` and ``inf``, which JSON has no numbers for, as texts: so the lineage page shows them.

    Sums of whole numbers and decimals, which DuckDB gives as ``Decimal``, are numbers.
    """
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
