"""What a step made last time: a hint that saves work and never changes what is made."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from pipeline_tasks.core.execution.memo import Record, memo_key, part_digest
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.schema import REJECTS
from pipeline_tasks.core.step import Step, StepParams
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, manifest_key, read_part, resolve_name, whole


def earlier(store: Store, step: Step, params: StepParams) -> Version | None:
    """The latest version of what ``step`` writes, if the same code version and parameters made it, as it was made.

    One that has lost a part, or rows to an erasure, says nothing of what was found.

    It is no input: it does not enter the version id, so a body that uses it must come to the same result without it,
    as with the memo of a map step. Its manifest names the versions it was made from; parts that they share with the
    inputs of today hold the same rows.
    """
    ref = resolve_name(store, step.output(params))
    made = whole(store, ref) if ref else None
    if made is None or made.erased:
        return None
    same = (made.step, made.code_version, made.params) == (step.name, step.version, params.identity())
    return Version(store, made, step.writes) if same else None


def earlier_part(run: Run, *free: str) -> pa.Table | None:
    """What the latest version of a map step has for the part that ``run`` computes, with rows that were removed since.

    The other inputs of that version, and its parameters named ``free``, may be others: the body has to see that they
    gave what those of today give.
    """
    record = _record(run, free)
    return read_part(run.store, record.output) if record else None


def earlier_rejects(run: Run, *free: str) -> pa.Table | None:
    """What was refused of that part; None where :func:`earlier_part` is."""
    record = _record(run, free)
    if record is None:
        return None
    return read_part(run.store, record.rejects) if record.rejects else REJECTS.table()


def _record(run: Run, free: tuple[str, ...]) -> Record | None:
    """What the latest version has for the part of ``run``, where all of it is still there."""
    job, store = run.job, run.store
    ref = resolve_name(store, job.dataset) if job else None
    made = Manifest.read(store.read(manifest_key(ref))) if ref else None
    if job is None or run.part is None or made is None:
        return None
    inputs = {name: [*map(Ref.parse, made.inputs.get(name, ()))] for name in job.inputs}
    then = replace(job, planned=made.params, inputs=inputs)
    settled, now = ({n: v for n, v in one.planned.items() if n not in free} for one in (then, job))
    if then.ref != ref or settled != now:
        return None
    record = Record.read(store.read(memo_key(part_digest(then, run.part))))
    keys = {one.key for one in record.made} if record else set()
    return record if store.present(keys) == keys else None
