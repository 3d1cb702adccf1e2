"""What a step made last time: a hint that saves work and never changes what is made."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

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


def earlier_version(run: Run, *free: str) -> Version | None:
    """The latest version of what the step of ``run`` writes, where its code version and parameters made it.

    Its parameters named ``free`` and its inputs may be others, and rows of it may be erased: the body takes what it
    would make of the very same texts.
    """
    job, store = run.job, run.store
    ref = resolve_name(store, job.dataset) if job else None
    made = _whole(store, ref) if ref else None
    if job is None or made is None or (made.step, made.code_version) != (job.step.name, job.step.version):
        return None
    return Version(store, made, job.step.writes) if _same(made.params, job.planned, free) else None


def _same(made_with: dict[str, Any], planned: dict[str, Any], free: tuple[str, ...]) -> bool:
    """Whether the parameters that are not ``free`` are the same."""
    then, now = ({n: v for n, v in one.items() if n not in free} for one in (made_with, planned))
    return then == now


_whole = lru_cache(maxsize=2)(whole)
"""Asked once for all parts."""


def earlier_part(run: Run, *free: str) -> pa.Table | None:
    """What the latest version of a map step has for the part that ``run`` computes, with rows that were removed since.

    The other inputs of that version, and its parameters named ``free``, may be others: the body has to see that they
    gave what those of today give.
    """
    record = _record(run, free)
    return read_part(run.store, record.output) if record else None


def earlier_part_and_rejects(run: Run, *free: str) -> tuple[pa.Table, pa.Table] | None:
    """The same, and what was refused of that part."""
    record = _record(run, free)
    if record is None:
        return None
    rejects = read_part(run.store, record.rejects) if record.rejects else REJECTS.table()
    return read_part(run.store, record.output), rejects


def _record(run: Run, free: tuple[str, ...]) -> Record | None:
    """What the latest version has for the part of ``run``, where all of it is still there."""
    job, store = run.job, run.store
    ref = resolve_name(store, job.dataset) if job else None
    if job is None or run.part is None or ref is None or (made := _made_by(store, ref)) is None:
        return None
    code_version, params, inputs = made
    if code_version != job.step.version or not _same(params, job.planned, free):
        return None
    then = replace(job, planned=params, inputs={name: [*map(Ref.parse, inputs.get(name, ()))] for name in job.inputs})
    if then.ref != ref:
        return None
    record = Record.read(store.read(memo_key(part_digest(then, run.part))))
    keys = {one.key for one in record.made} if record else set()
    return record if store.present(keys) == keys else None


@lru_cache(maxsize=2)
def _made_by(store: Store, ref: Ref) -> tuple[str, dict[str, Any], dict[str, list[str]]] | None:
    """Code version, parameters and inputs of ``ref``: read once for all parts, and never another of one version."""
    made = Manifest.read(store.read(manifest_key(ref)))
    return (made.code_version, made.params, made.inputs) if made else None
