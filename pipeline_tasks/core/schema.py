"""Row schemas: the explicit Arrow schema of a dataset, its key column and what every column means."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from pipeline_tasks.core.errors import InputError


class ChangedColumnsError(InputError):
    """Rows were written in a schema whose columns have another type or another name now."""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: its name.
        type: its Arrow type.
        doc: its meaning: kind, unit, where it comes from.
        own: it names something that came into being with the row, as the key does; who erases the row erases that.
        along: of a list, the list of ids whose elements its own belong to, place by place.
    """

    name: str
    type: pa.DataType
    doc: str
    own: bool = False
    along: str = ""


@dataclass(frozen=True)
class RowSchema:
    """The rows of a dataset.

    Attributes:
        name: the schema's name; also the default dataset name.
        key: the column that names a row; unique within a version.
        columns: all columns in order.
    """

    name: str
    key: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if self.key not in {c.name for c in self.columns}:
            raise InputError(f"schema {self.name!r}: its key {self.key!r} is not one of its columns")

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema; no column depends on what the first batch happens to hold."""
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])

    def plus(self, *columns: Column) -> RowSchema:
        """These rows with further columns, under the same name: whatever reads the schema reads them as well."""
        return replace(self, columns=(*self.columns, *columns))

    def has(self, column: str) -> bool:
        """Whether rows carry ``column``."""
        return any(c.name == column for c in self.columns)

    def table(self, rows: list[dict] | None = None) -> pa.Table:
        """An Arrow table of ``rows`` (dicts) in this schema; no rows give an empty table."""
        return pa.Table.from_pylist(rows or [], schema=self.arrow)

    def later_than(self, held: pa.Schema) -> list[pa.Field]:
        """The columns that rows written as ``held`` lack because they were added since; such rows read null.

        A column that was taken out since is no harm: it is not read.

        Raises:
            ChangedColumnsError: a column has another type or name now: one is lacking where another is unknown.
        """
        lacking = [field for field in self.arrow if field.name not in held.names]
        unknown = [name for name in held.names if not self.has(name)]
        if lacking and (unknown or self.key not in held.names):
            names = ", ".join(field.name for field in lacking)
            instead = ", ".join(unknown) or "no key"
            raise ChangedColumnsError(f"schema {self.name!r} has {names}, and they have {instead} instead")
        for field in self.arrow:
            was = field.type if field in lacking else held.field(field.name).type
            if was != field.type:
                raise ChangedColumnsError(
                    f"schema {self.name!r} has {field.name} as {field.type}, and they have it as {was}"
                )
        return lacking

    def conform(self, table: pa.Table) -> pa.Table:
        """``table`` with exactly these columns, in this order and of these types.

        Raises:
            InputError: a column is missing, unknown, or does not fit its type.
        """
        wanted, got = set(self.arrow.names), set(table.column_names)
        if wanted != got:
            raise InputError(
                f"rows do not fit schema {self.name!r}: missing {sorted(wanted - got)}, unknown {sorted(got - wanted)}"
            )
        try:
            return table.select(self.arrow.names).cast(self.arrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise InputError(f"rows do not fit schema {self.name!r}: {error}") from error


REJECTS = RowSchema(
    "rejects",
    "row_id",
    (
        Column("row_id", pa.string(), "key of the row that was refused, in the input's key column"),
        Column("reason", pa.string(), "short machine-readable reason, e.g. encrypted"),
        Column("detail", pa.string(), "what a person needs to know: URL, message, the row it duplicates"),
    ),
)

FILES = "files"
