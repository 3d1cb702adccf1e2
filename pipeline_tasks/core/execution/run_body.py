"""What the body of a step over whole datasets gives, wherever it is called: parts in the store, rejects, counters."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from pipeline_tasks.core.engines import Engine
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.failure import counted
from pipeline_tasks.core.execution.headway import marking_headway
from pipeline_tasks.core.execution.team import Member, PartDone, member
from pipeline_tasks.core.ids import seed_of
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import PartitionedRun
from pipeline_tasks.core.parts import damage_told, write_file, write_rows
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.disk import space_beside
from pipeline_tasks.core.store.protocol import LOST
from pipeline_tasks.core.versions import Version


def give(
    store: Store,
    job: Job,
    opened: dict[str, list[Version]],
    previous: Version | None,
    engine: Engine | None,
    name: str,
) -> tuple[PartitionedRun, list[Part]]:
    """Call the body; the parts that it gave are in the store, and the run knows its rejects and counters.

    Args:
        store: where everything is.
        job: what is made.
        opened: its inputs.
        previous: the version that a growing dataset grows from.
        engine: computes partitions; None for a reduce step, which another machine may call.
        name: of the scratch folder, which stays, and of the seed.

    Raises:
        InputError: what a training would read is damaged.
    """
    if job.step.kind == "reduce" and job.step.resources.resumes:
        _refuse_damaged(store, [version for versions in opened.values() for version in versions])
    here = member()
    if not here.leads:
        _take_part(store, job, opened, name, here)
    run = PartitionedRun(store, Inputs(opened), seed_of(job.step.name, name), job.step.name, name, previous, job=job)
    run.engine = engine
    with counted(run.counters), space_beside(store), marking_headway(store, job, store.scratches / name):
        result = job.step.body(run.inputs, job.params, run)
        parts = _parts(store, job, run, result)  # a generator rejects rows until its end
    run.engine = None
    return run, parts


def _refuse_damaged(store: Store, versions: list[Version]) -> None:
    """Compare what lies on this machine of a training's inputs with the sha256 that it is named by.

    A flipped bit may read as another row, and hours would be spent on learning it.

    Raises:
        InputError: a part has other bytes.
    """
    needed = ((*v.manifest.parts, *(removal.part for removal in v.manifest.removals)) for v in versions)
    parts = dict.fromkeys(part for of_version in needed for part in of_version)
    with meter("compare inputs", len(parts), "parts") as progress:
        for part in parts:
            with damage_told(store, part.key):
                found = store.sha256(part.key, here=True)
            if found not in (None, part.sha256):
                raise InputError(f"{part.key} in {store} cannot be read (its sha256 is {found}); {LOST}")
            progress.advance()


def _take_part(store: Store, job: Job, opened: dict[str, list[Version]], name: str, here: Member) -> NoReturn:
    """Call the body on a node that does not lead; what it leaves to go on from is in a folder of its own.

    Raises:
        PartDone: as it should.
        InputError: the body did all its work by itself.
    """
    own = f"{name}-{here.rank}"
    run = PartitionedRun(store, Inputs(opened), seed_of(job.step.name, name), job.step.name, own, job=job)
    try:
        with space_beside(store):
            job.step.body(run.inputs, job.params, run)
    except PartDone:
        store.drop_scratch(own)
        raise
    raise InputError(f"{run.label} does not share its work with other nodes: leave nodes out of its resources")


def _parts(store: Store, job: Job, run: PartitionedRun, result: Any) -> list[Part]:
    """Everything that the body gives, written as it comes: a dataset may be larger than memory."""
    if job.step.keeps:
        return []
    schema = job.step.writes
    if schema is None:
        return _files(store, result)
    if job.step.kind == "partitioned":
        return list(map(partial(_final, store, run, schema), result))
    tables = [result] if isinstance(result, pa.Table) else result
    conformed: Iterator[pa.Table] = map(schema.conform, tables)
    if job.step.grows:
        conformed = filter(len, conformed)
    parts = list(map(partial(write_rows, store), conformed))  # a loop would hold a table while the next is made
    return parts if parts or job.step.grows else [write_rows(store, schema.table())]


def _final(store: Store, run: PartitionedRun, schema: RowSchema, made: Part | pa.Table) -> Part:
    """What partitions gave is there already, and becomes a part of the version as it is."""
    if isinstance(made, pa.Table):
        return write_rows(store, schema.conform(made))
    if made.sha256 not in run.final:
        raise InputError(f"{run.label} yields a table whose rows were not checked; spread(…, final=True) gives it")
    return made


def _files(store: Store, folder: Path) -> list[Part]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    parts = []
    for path in files:
        with store.temporary() as copy:
            shutil.copyfile(path, copy)
            parts.append(write_file(store, copy, str(path.relative_to(folder))))
    return parts
