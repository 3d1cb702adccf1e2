"""What an erasure does to one table: which rows it takes, which ids these name, and what stays of the others.

Columns say what they are by their names: ``_id``, ``_sha256`` and ``url`` identify, ``_ids`` are lists of ids. A row
was *made from* what its key names, what an id column names that is the key of another dataset, what its addresses name,
and what is its own. Any other id refers to a row that it was not made from: ``positive_id`` of a labelled query, say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.schema import RowSchema

_RESPONSES = "response_id"
_ADDRESS = re.compile(r"(.*_)?url")


def identifies(name: str) -> bool:
    """Whether a column called ``name`` holds ids, sha256 or addresses, one a row."""
    named = name.endswith(("_id", "_sha256")) and not name.endswith(_RESPONSES)
    return named or _ADDRESS.fullmatch(name) is not None


def lists_ids(name: str) -> bool:
    """Whether a column or field called ``name`` holds a list of ids."""
    return name.endswith("_ids")


def id_columns(schema: pa.Schema) -> list[str]:
    """The columns of a table that identify."""
    return [f.name for f in schema if pa.types.is_string(f.type) and identifies(f.name)]


def id_lists(schema: pa.Schema) -> list[str]:
    """The columns of a table that may hold lists of ids."""
    return [f.name for f in schema if pa.types.is_nested(f.type) and "_ids" in f"{f.name} {f.type}"]


@dataclass(frozen=True)
class Reach:
    """How far an erasure goes in the rows of one schema.

    Attributes:
        schema: of the rows.
        keys: key columns of all datasets.
    """

    schema: RowSchema
    keys: frozenset[str]

    @property
    def own(self) -> list[str]:
        """Columns that name what came into being with a row, its key among them."""
        return [c.name for c in self.schema.columns if c.name == self.schema.key or c.own]

    @property
    def roots(self) -> list[str]:
        """Columns that name what a row was made from."""
        names = [c.name for c in self.schema.columns if identifies(c.name)]
        return [n for n in names if n in self.keys or n in self.own or _ADDRESS.fullmatch(n)]

    @property
    def refers(self) -> bool:
        """Whether a row may hold texts of others: it has an id of something that it was not made from."""
        return any(identifies(c.name) and c.name not in self.roots for c in self.schema.columns)

    def made_from(self, table: pa.Table, ids: Collection[str]) -> pa.Table:
        """The rows that were made from ``ids``."""
        return table.filter(_holds(table, self.roots, ids))

    def spread(self, table: pa.Table, ids: Collection[str]) -> set[str]:
        """What the rows that were made from ``ids`` name as their own."""
        rows = self.made_from(table, ids)
        return {value for name in self.own if name in rows.column_names for value in rows[name].to_pylist() if value}

    def rest(self, table: pa.Table, ids: Collection[str]) -> pa.Table:
        """``table`` without the rows in which one of ``ids`` stands, and without them in lists; itself if nothing goes.

        Columns *along* a list of ids lose what stands at the same places.
        """
        goes = _holds(table, [n for n in table.column_names if identifies(n)], ids)
        rest = table.filter(pc.invert(goes)) if pc.any(goes).as_py() else table
        if not any(mentions(name, rest[name], ids) for name in id_lists(table.schema)):
            return rest
        return pa.Table.from_pylist([self._stripped(row, ids) for row in rest.to_pylist()], schema=rest.schema)

    def _stripped(self, row: dict[str, Any], ids: Collection[str]) -> dict[str, Any]:
        along = {column.name: column.along or column.name for column in self.schema.columns}
        for name in [n for n in row if lists_ids(n) and row[n]]:
            stays = [value not in ids for value in row[name]]
            for other in [n for n in row if along.get(n) == name and row[n]]:
                row[other] = [value for value, keep in zip(row[other], stays, strict=True) if keep]
        return {name: _without(name, value, ids) for name, value in row.items()}


def _holds(table: pa.Table, names: Iterable[str], ids: Collection[str]) -> pa.ChunkedArray:
    """Which rows hold one of ``ids`` in one of the columns ``names``."""
    wanted = pa.array(sorted(ids), pa.string())
    found = pa.chunked_array([pa.repeat(pa.scalar(False), table.num_rows)])
    for name in names:
        if name in table.column_names and pa.types.is_string(table[name].type):
            found = pc.or_(found, pc.fill_null(pc.is_in(table[name], wanted), False))
    return found


def mentions(name: str, column: pa.ChunkedArray, ids: Collection[str]) -> bool:
    """Whether one of ``ids`` stands in a list of ids, however deep in a column or field called ``name``."""
    kind = column.type
    if pa.types.is_struct(kind):
        return any(mentions(f.name, pc.struct_field(column, [i]), ids) for i, f in enumerate(kind))
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return False
    inner = pc.list_flatten(column)
    if pa.types.is_dictionary(inner.type):
        inner = inner.cast(inner.type.value_type)
    if lists_ids(name) and pa.types.is_string(inner.type):
        return bool(pc.any(pc.is_in(inner, pa.array(sorted(ids), pa.string()))).as_py())
    return mentions(name, inner, ids)


def _without(name: str, value: Any, ids: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {field: _without(field, inner, ids) for field, inner in value.items()}
    if isinstance(value, list):
        return [_without(name, inner, ids) for inner in value if not (lists_ids(name) and inner in ids)]
    return value


def responses_of(table: pa.Table) -> set[str]:
    """The stored answers that these rows name."""
    names = [name for name in table.column_names if name.endswith(_RESPONSES)]
    return {value for name in names for value in table[name].to_pylist() if value}


def keys_left(table: pa.Table, ids: Collection[str]) -> pa.Table:
    """A table of removed keys without those that are gone for good."""
    return table.filter(pc.invert(_holds(table, ["key"], ids)))
