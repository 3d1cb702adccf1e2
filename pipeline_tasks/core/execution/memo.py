"""Part-level memo of map steps: (step, code version, parameters, input part) -> output part.

A part may be computed while some of its rows are already removed (duplicates cost no tokens), and more rows may be
removed later. The record says which rows were skipped: it stays a hit as long as those are still removed, because later
removals travel in the manifest and not in the part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.failure import counted
from pipeline_tasks.core.ids import canonical_json, digest, seed_of
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.parts import read_part, write_passing, write_rows
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.removals import without
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.disk import space_beside
from pipeline_tasks.core.versions import Version

RECEIPTS = "receipts"
_WORK = b"work"
ROW_COUNTERS = ("rows_in", "rows_out", "rows_rejected")


class Record(BaseModel):
    """What one part, or one partition, became.

    Attributes:
        output: its rows; of a partition the first table.
        rejects: what was refused.
        skipped: column -> keys of the rows that were removed already.
        counters: what the body counted.
        further: the other tables of a partition, in order.
        partial: it is a partition's; its parts may hold anything, and need not stand in a version.
    """

    model_config = ConfigDict(frozen=True)

    output: Part
    rejects: Part | None
    skipped: dict[str, list[str]]
    counters: dict[str, float]
    further: list[Part] = []
    partial: bool = False

    @classmethod
    def read(cls, data: bytes | None) -> Record | None:
        """What is kept as a record; None where that is none, such as a file that a power cut left empty."""
        try:
            return cls.model_validate_json(data or b"")
        except ValidationError:
            return None

    @property
    def made(self) -> list[Part]:
        """The objects that it names."""
        return [o for part in (*self.tables, self.rejects) if part for o in part.objects]

    @property
    def tables(self) -> list[Part]:
        """What the body gave."""
        return [self.output, *self.further]


def part_digest(job: Job, part: Part) -> str:
    """Identity of the work on ``part``: the memo's key, the seed and the scratch folder come from it."""
    first, *side = job.input_names
    return digest(job.step.name, job.step.version, job.identity, part.sha256, [job.input_names[s] for s in side])


def memo_key(name: str) -> str:
    """Where the record of the work with this digest is kept."""
    return f"memo/{name}.json"


def lookup(store: Store, job: Job, version: Version, index: int) -> Record | None:
    """The record for part ``index``, if what it skipped is still removed."""
    return lookup_all(store, job, version, [index])[index]


def lookup_all(store: Store, job: Job, version: Version, indexes: Iterable[int]) -> dict[int, Record | None]:
    """Index -> what :func:`lookup` finds, for many parts in a few rounds through the store."""
    keys = {index: memo_key(part_digest(job, version.manifest.parts[index])) for index in indexes}
    read = dict(store.read_all(keys.values()))
    found = {index: record for index, key in keys.items() if (record := Record.read(read[key]))}
    there = store.present(made.key for record in found.values() for made in record.made)
    return {index: _usable(job, version, index, found.get(index), there) for index in keys}


def _usable(job: Job, version: Version, index: int, record: Record | None, there: set[str]) -> Record | None:
    if record is None or not there.issuperset(made.key for made in record.made):
        return None
    removed = version.removed.columns(index)
    for column in {*record.skipped, *removed}:
        skipped, inherited = set(record.skipped.get(column, ())), _carries(job, column)
        if inherited and not skipped:
            continue
        now = _keys(version.all_rows(index, [column]), {column: removed.get(column, [])})[column]
        if not (skipped <= now if inherited else skipped == now):
            return None
    return record


def made_once(run: Run, words: Sequence[str], make: Callable[[], pa.Table]) -> pa.Table:
    """A table that a body reads again in later versions of its step, which find it by the same ``words``.

    Raises:
        InputError: the body was called by itself.
    """
    if run.job is None:
        raise InputError(f"{run.label} finds nothing that others made; run it as a step")
    store, key = run.store, memo_key(digest(run.job.step.name, run.job.step.version, "once", *words))
    record = Record.read(store.read(key))
    keys = {made.key for made in record.made} if record else set()
    if record and store.present(keys) == keys:
        return read_part(store, record.output)
    table = make()
    record = Record(output=write_passing(store, table), rejects=None, skipped={}, counters={}, partial=True)
    store.replace(key, record.model_dump_json().encode())
    return table


def live_rejects(store: Store, version: Version, index: int, record: Record) -> Part | None:
    """What was refused of part ``index``, less rows that were removed since."""
    gone = version.removed.rows(index)
    if record.rejects is None or not len(gone):
        return record.rejects
    key = version.manifest.key
    removed = version.all_rows(index, [key])[key].take(pa.array(gone, pa.int64()))
    rejects = read_part(store, record.rejects)
    left = rejects.filter(pc.invert(pc.is_in(rejects["row_id"], removed.combine_chunks())))
    if left.num_rows == rejects.num_rows:
        return record.rejects
    return write_rows(store, left) if left.num_rows else None


def missing(store: Store, job: Job, group: tuple[int, int] | None = None) -> list[int]:
    """Positions of the parts of a map step's first input, or of a group, without a record: what a run would compute."""
    source = Version.open(store, job.inputs[next(iter(job.step.reads))][0])
    i, n = group or (0, 1)
    found = lookup_all(store, job, source, range(i, len(source.manifest.parts), n))
    return [index for index, record in found.items() if record is None]


def _carries(job: Job, column: str) -> bool:
    return job.step.writes is not None and job.step.writes.has(column)


def _keys(rows: pa.Table, removed: Mapping[str, Sequence[int] | np.ndarray]) -> dict[str, set[str]]:
    """Column -> the keys that are removed by it, at these positions of ``rows``."""
    return {column: set(rows[column].take(pa.array(at, pa.int64())).to_pylist()) for column, at in removed.items()}


def compute(store: Store, job: Job, opened: dict[str, list[Version]], index: int) -> Record:
    """Run the body over part ``index``, store its output and rejects, then the record.

    A part that another process finished meanwhile is taken from it; what it cost is in that process's counters.
    """
    version = opened[next(iter(job.step.reads))][0]
    with store.alone(part_digest(job, version.manifest.parts[index])):
        found = lookup(store, job, version, index)
        if found:
            return found.model_copy(update={"counters": {k: found.counters[k] for k in ROW_COUNTERS}})
        return _compute(store, job, opened, version, index)


def _compute(store: Store, job: Job, opened: dict[str, list[Version]], version: Version, index: int) -> Record:
    part = version.manifest.parts[index]
    raw = version.all_rows(index)
    rows = without(raw, version.removed.rows(index))
    name = part_digest(job, part)
    run = Run(store, Inputs(opened), seed_of(name), f"{job.step.name} part {index + 1}", name, part=part, job=job)
    with counted(run.counters), space_beside(store):
        table = _as_table(job, job.step.body(rows, job.params, run))
    job.check_unchanged()
    rejects = run.rejects_table()
    counters: dict[str, Any] = {
        **run.counters,
        "rows_in": rows.num_rows,
        "rows_out": table.num_rows,
        "rows_rejected": rejects.num_rows,
    }
    if run.responses and not table.num_rows:  # else all that is paid for and empty would be one part with one receipt
        table = table.replace_schema_metadata({_WORK: name.encode()})
    record = Record(
        output=write_rows(store, table),
        rejects=write_rows(store, rejects) if rejects.num_rows else None,
        skipped={column: sorted(keys) for column, keys in _keys(raw, version.removed.columns(index)).items()},
        counters=counters,
    )
    if run.responses:
        store.replace(f"{RECEIPTS}/{record.output.sha256}.json", canonical_json({"responses": sorted(run.responses)}))
    store.replace(memo_key(name), record.model_dump_json().encode())
    return record


def _as_table(job: Job, result: Any) -> pa.Table:
    schema = job.step.writes
    if schema is None:
        raise InputError(f"{job.step.name}: a map step must write rows, declare writes=")
    if isinstance(result, pa.Table):
        return schema.conform(result)
    tables = [schema.conform(t) for t in result]
    return pa.concat_tables(tables) if tables else schema.table()
