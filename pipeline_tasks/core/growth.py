"""Datasets that grow: a version is the one before it, minus the rows that are withdrawn, plus new parts.

This is how the outside world (a list of addresses, a site) enters. Old parts stay as they are, so that every map step
after it finds them in its memo; what is gone is a removal in the manifest, and older versions still hold it. A part of
which no row is left goes, and the map steps go on without it: else nothing would ever free what was withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.withdrawals import check_withdrawals
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.manifest import Part, Removal
from pipeline_tasks.core.parts import read_part, write_rows
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.removals import moved
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import REMOVED


@dataclass(frozen=True)
class Growth:
    """The next version's parts and removals; ``job`` names it, and is None where nothing changed."""

    job: Job | None
    parts: list[Part]
    removals: list[Removal]


def grow(store: Store, job: Job, run: Run, new: list[Part], rejects: list[Part]) -> Growth:
    """What the previous version becomes with the parts ``new``, without ``run.withdrawn``.

    Raises:
        InputError: a new row has the key of another, a row is withdrawn that is not there, or too many are.
    """
    previous, withdrawn = run.previous, sorted(run.withdrawn)
    parts = list(previous.manifest.parts) if previous else []
    removals = list(previous.manifest.removals) if previous else []
    stays = _check_keys(store, job, run, new)
    if previous and not new and not withdrawn and rejects == previous.manifest.rejects:
        return Growth(None, parts, removals)
    if withdrawn and job.step.writes:
        keys = write_rows(store, pa.table({"key": withdrawn}, schema=REMOVED))
        removals.append(Removal(part=keys, column=job.step.writes.key, first=0, last=len(parts)))
    if not all(stays):
        removals = moved(store, parts, removals, stays)
        parts = list(compress(parts, stays))
        if not parts and not new and job.step.writes:  # with no part at all nobody would know its columns
            parts = [write_rows(store, job.step.writes.table())]
    parts += new
    change = digest([part.sha256 for part in new], withdrawn, [part.sha256 for part in rejects])
    return Growth(job.changed(previous, change), parts, removals)


def _check_keys(store: Store, job: Job, run: Run, new: list[Part]) -> list[bool]:
    """Refuse keys as :func:`grow` says; whether a row is left of each part of the version before."""
    schema = job.step.writes
    if schema is None:
        raise InputError(f"{job.step.name}: a dataset that grows has rows; declare writes=")
    tables = run.previous.parts([schema.key]) if run.previous else ()
    held = [table[schema.key].to_pylist() for table in tables]
    live = {key for keys in held for key in keys}
    strange = sorted(run.withdrawn - live)
    if strange:
        raise InputError(f"{job.step.name}: withdraws {schema.key} {strange[0]!r}, which the version before lacks")
    check_withdrawals(job, run, len(live), sum(part.rows for part in new))
    live -= run.withdrawn
    for part in new:
        for key in read_part(store, part, [schema.key])[schema.key].to_pylist():
            if key in live:
                raise InputError(f"{job.step.name}: two rows have {schema.key} {key!r}; keep one of them")
            live.add(key)
    return [not run.withdrawn.issuperset(keys) for keys in held]


def difference(run: Run, schema: RowSchema, rows: Iterable[dict], part_rows: int) -> Iterator[pa.Table]:
    """Make the next version hold exactly ``rows``: yields those that are new, withdraws those that are not wanted.

    For small rows only: all of them, and all that the version before holds, are compared in memory.

    Raises:
        InputError: two rows share a key.
    """
    wanted: dict[str, dict] = {}
    for row in rows:
        if wanted.setdefault(row[schema.key], row) is not row:
            raise InputError(f"{run.label}: two rows have {schema.key} {row[schema.key]!r}; keep one of them")
    live = {row[schema.key]: row for table in run.previous.parts() for row in table.to_pylist()} if run.previous else {}
    for key, row in live.items():
        if wanted.get(key) != row:
            run.withdraw(key, replaced=key in wanted)
    new = [row for key, row in wanted.items() if live.get(key) != row]
    for start in range(0, len(new), part_rows):
        yield schema.table(new[start : start + part_rows])
