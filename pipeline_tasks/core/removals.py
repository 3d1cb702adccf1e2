"""Which rows of which part a version's removals take away.

A removal is a list of keys, and to look them up in every part costs parts times keys. So they are looked up once, and
what is remembered are positions: a few bytes for each row that is gone, for this removal and these parts, whatever
version they are in. They follow from the removal and the parts, and may be lost: who lacks them looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha256
from itertools import takewhile
from operator import is_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline_tasks.core.errors import FoundryError
from pipeline_tasks.core.manifest import Manifest, Part, Removal
from pipeline_tasks.core.parts import read_part
from pipeline_tasks.core.store import Store

PREFIX = "positions"
_AT_ONCE = 1 << 18
_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1


class RemovedRows:
    """Positions of rows that are gone from parts; they are looked up when first asked for, or sent elsewhere.

    Args:
        n_parts: how many parts.
        look_up: gives for each key column rising places (number of the part, then row, in one int64).
    """

    def __init__(self, n_parts: int, look_up: Callable[[], dict[str, np.ndarray]]) -> None:
        self._n_parts, self._look_up = n_parts, look_up

    @classmethod
    def of(cls, store: Store, manifest: Manifest) -> RemovedRows:
        """Those that ``manifest`` is without."""
        return cls(len(manifest.parts), partial(_of_columns, store, manifest))

    def between(self, first: int, last: int) -> RemovedRows:
        """Those of the parts ``first`` <= i < ``last``, found among those of all: nothing is remembered for these."""
        return RemovedRows(
            last - first, lambda: {name: _within(places, first, last) for name, places in self._of_column.items()}
        )

    def plus(self, column: str, rows: Sequence[np.ndarray]) -> RemovedRows:
        """These, and of each part the positions ``rows``, as if a removal named them by ``column``."""
        places = [(number << _ROW_BITS) + some for number, some in enumerate(rows)]
        found = self._of_column
        return RemovedRows(self._n_parts, lambda: found | {column: _union([found.get(column, _union([])), *places])})

    def __getstate__(self) -> dict[str, Any]:
        return {"_n_parts": self._n_parts, "_of_column": self._of_column}

    def __len__(self) -> int:
        """How many rows are removed; one that two removals name counts once."""
        return len(self._all)

    def columns(self, index: int) -> dict[str, np.ndarray]:
        """Key column -> rising positions in part ``index`` that are removed by it."""
        found = {column: _within(places, index, index + 1) for column, places in self._of_column.items()}
        return {column: rows for column, rows in found.items() if len(rows)}

    def rows(self, index: int) -> np.ndarray:
        """Rising positions in part ``index`` that are removed."""
        return self._rows[self._starts[index] : self._starts[index + 1]]

    @cached_property
    def _all(self) -> np.ndarray:
        return _union(self._of_column.values())

    @cached_property
    def _rows(self) -> np.ndarray:
        return self._all & _ROW

    @cached_property
    def _starts(self) -> list[int]:
        numbers = np.arange(self._n_parts + 1)
        return np.searchsorted(self._all, numbers << _ROW_BITS).tolist()

    @cached_property
    def _of_column(self) -> dict[str, np.ndarray]:
        return self._look_up()


def without(table: pa.Table, rows: np.ndarray, first: int = 0) -> pa.Table:
    """``table``, whose rows are those of a part from ``first`` on, minus the positions ``rows`` of that part."""
    if not len(rows):
        return table
    if first or rows[-1] >= table.num_rows:
        rows = rows[slice(*np.searchsorted(rows, (first, first + table.num_rows)))] - first
    live = np.ones(table.num_rows, bool)
    live[rows] = False
    return pc.call_function("filter", [table, pa.array(live)])  # a small part takes half as long as in Table.filter


def moved(store: Store, parts: list[Part], removals: list[Removal], stays: Sequence[bool]) -> list[Removal]:
    """The ``removals`` of ``parts``, all of one column, once those parts alone are there that stay.

    A removal that takes nothing away from them is left out.
    """
    left = np.array(stays, bool)
    at = np.cumsum([0, *left]).tolist()
    return [
        removal.model_copy(update={"first": at[removal.first], "last": at[removal.last]})
        for removal, places in zip(removals, _positions(store, parts, removals), strict=True)
        if left[places >> _ROW_BITS].any()
    ]


def positions_key(removal: Removal, parts: list[Part]) -> str:
    """Where the positions are kept that ``removal`` takes away from ``parts``."""
    named = sha256("\n".join((removal.column, removal.part.sha256, *(part.sha256 for part in parts))).encode())
    return f"{PREFIX}/{named.hexdigest()}.parquet"


def positions_keys(manifests: Iterable[Manifest]) -> set[str]:
    """Where the positions of all their removals are kept.

    The name of one that a version has from the version before it, for the same parts, is not worked out again: to hash
    the names of all parts for each would grow with the square of the versions.
    """
    found, before = set[str](), dict[str, tuple[list[Part], set[Removal]]]()
    for manifest in sorted(manifests, key=lambda one: (len(one.parts), len(one.removals))):
        parts, known = before.get(manifest.dataset, ([], set()))
        same = sum(takewhile(bool, map(is_, parts, manifest.parts)))  # of manifests that share; others are hashed
        new = [removal for removal in manifest.removals if removal.last > same or removal not in known]
        found |= {positions_key(removal, manifest.parts[removal.first : removal.last]) for removal in new}
        before[manifest.dataset] = manifest.parts, set(manifest.removals)
    return found


def _of_columns(store: Store, manifest: Manifest) -> dict[str, np.ndarray]:
    found = {}
    for column in sorted({removal.column for removal in manifest.removals}):
        mine = [removal for removal in manifest.removals if removal.column == column]
        found[column] = _union(_positions(store, manifest.parts, mine))
    return found


def _positions(store: Store, parts: list[Part], removals: list[Removal]) -> list[np.ndarray]:
    """Rising places of the rows that each of ``removals``, which are of one column, takes away."""
    keys = [positions_key(removal, parts[removal.first : removal.last]) for removal in removals]
    found = {key: places for key, data in store.read_all(keys) if (places := _unpacked(data)) is not None}
    new = {key: removal for key, removal in zip(keys, removals, strict=True) if key not in found}
    for key, places in zip(new, _looked_up(store, parts, list(new.values())), strict=True):
        found[key] = places
        with suppress(FoundryError, OSError):  # whoever may only read the store looks again next time
            store.replace(key, _packed(places))
    starts = [removal.first << _ROW_BITS for removal in removals]
    return [found[key] + start for key, start in zip(keys, starts, strict=True)]


def _looked_up(store: Store, parts: list[Part], removals: list[Removal]) -> list[np.ndarray]:
    """Places of each removal, counted from its first part; the key column of a part is read once for all of them.

    A block of parts at a time: to hash the keys costs as much as to look up as many rows.
    """
    keys = [read_part(store, removal.part)["key"].combine_chunks() for removal in removals]
    found: list[list[np.ndarray]] = [[np.empty(0, np.int64)] for _ in removals]
    first, last = min((r.first for r in removals), default=0), max((r.last for r in removals), default=0)
    block: list[pa.ChunkedArray] = []
    for number in range(first, last):
        table = read_part(store, parts[number], [removals[0].column])
        lacking = pa.chunked_array([pa.nulls(parts[number].rows, pa.string())])
        block.append(table.column(0) if table.num_columns else lacking)
        if sum(map(len, block)) >= max(_AT_ONCE, *map(len, keys)) or number + 1 == last:
            for removal, names, places in zip(removals, keys, found, strict=True):
                hits = _places(block, names) + ((number + 1 - len(block)) << _ROW_BITS)
                start, end = removal.first << _ROW_BITS, removal.last << _ROW_BITS
                places.append(hits[slice(*np.searchsorted(hits, (start, end)))] - start)
            block = []
    return [np.concatenate(places) for places in found]


def _places(columns: list[pa.ChunkedArray], keys: pa.Array) -> np.ndarray:
    rows = pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string())
    hits = np.flatnonzero(pc.is_in(rows, value_set=keys).to_numpy())
    starts = np.cumsum([0, *map(len, columns)])
    number = np.searchsorted(starts, hits, side="right") - 1
    return (number << _ROW_BITS) + hits - starts[number]


def _packed(places: np.ndarray) -> bytes:
    """The places as Parquet: what rises takes little."""
    table = pa.table({"part": places >> _ROW_BITS, "row": places & _ROW})
    sink = pa.BufferOutputStream()
    rising = dict.fromkeys(table.column_names, "DELTA_BINARY_PACKED")
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, column_encoding=rising)
    return sink.getvalue().to_pybytes()


def _unpacked(data: bytes | None) -> np.ndarray | None:
    """The places; None where that is none, such as a file that a power cut left empty."""
    try:
        found = pq.ParquetFile(pa.BufferReader(data or b"")).read()
    except pa.ArrowInvalid:
        return None
    return (found["part"].to_numpy() << _ROW_BITS) + found["row"].to_numpy()


def _within(places: np.ndarray, first: int, last: int) -> np.ndarray:
    bounds = (first << _ROW_BITS, last << _ROW_BITS)
    return places[slice(*np.searchsorted(places, bounds))] - bounds[0]


def _union(places: Iterable[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate([np.empty(0, np.int64), *places]))
