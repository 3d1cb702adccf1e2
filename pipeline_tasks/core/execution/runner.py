"""Runs a step: reuse or build, commit, and tell the lineage. Everything a step body must not care about.

Killed anywhere, nothing is lost and nothing half-made is listed: parts and memo records appear whole, the manifest is
created last and exclusively, and a second run starts from the parts that are there.
"""

from __future__ import annotations

import logging
import resource
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from pipeline_tasks.core.engines import Engine, engine_name, engine_of
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.execution import latest, memo
from pipeline_tasks.core.execution.failure import counted, facts_of
from pipeline_tasks.core.execution.growth_requests import Request, note_request
from pipeline_tasks.core.execution.headway import last_left
from pipeline_tasks.core.execution.run_body import give
from pipeline_tasks.core.growth import grow
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.licences import licences_of
from pipeline_tasks.core.manifest import Manifest, Part, Ref, Removal
from pipeline_tasks.core.partitions import PartitionedRun
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.pins import pinned
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.removals import RemovedRows
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.disk import space_beside
from pipeline_tasks.core.versions import REMOVED, Version, load_manifest

log = logging.getLogger(__name__)


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        ref: the version; None for a run over one group of parts.
        reused: nothing had to be built.
        counters: rows in (of what was built), out, rejected; parts built and reused; what the body counted.
    """

    ref: Ref | None
    reused: bool
    counters: Counter[str] = field(default_factory=Counter)


def run_job(store: Store, job: Job, *, group: tuple[int, int] | None = None, workers: int = 1) -> Outcome:
    """Make the version that ``job`` names, or find it.

    Args:
        store: where everything is.
        job: see :func:`pipeline_tasks.core.plan.plan`.
        group: (i, n): only memoise parts i, i + n, … of a map step and commit nothing; a run without a group then
            finds them. This is how Airflow spreads a map step over mapped tasks.
        workers: processes for a step that allows several.

    Raises:
        TransientError: the store's disk, or that of temporary files, is full.
    """
    with space_beside(store):
        return _run_with_events(store, job, group, workers)


def _run_with_events(store: Store, job: Job, group: tuple[int, int] | None, workers: int) -> Outcome:
    """The outcome, once the lineage knows of it."""
    events = EventLog(store, job.step.name, job.step.version)
    facts = job.facts
    if group:
        facts["group"] = f"{group[0]}/{group[1]}"
    events.emit("START", inputs=job.input_names, output=None, facts=facts)
    started = time.monotonic()
    try:
        outcome = _run(store, job, group, workers)
    except BaseException as error:
        facts |= facts_of(job, error) | {"duration_s": time.monotonic() - started}
        events.emit("FAIL", inputs=job.input_names, output=None, facts=facts)
        raise
    facts |= {
        "reused": outcome.reused,
        "duration_s": round(time.monotonic() - started, 3),
        "peak_memory_bytes": None if engine_name(job.step, job.params) == "ray" else _peak_memory_bytes(),
        "engine": engine_name(job.step, job.params),
        "workers": workers if job.step.processes else 1,
        "counters": dict(outcome.counters),
    }
    made = str(outcome.ref) if outcome.ref else None
    events.emit("COMPLETE", inputs=job.input_names, output=made, facts=facts)
    return outcome


def _run(store: Store, job: Job, group: tuple[int, int] | None, workers: int) -> Outcome:
    with pinned(store, job.step.name, job.needs(store)):
        return _run_pinned(store, job, group, workers)


def _run_pinned(store: Store, job: Job, group: tuple[int, int] | None, workers: int) -> Outcome:
    licences_of(store, job)
    opened = job.open(store)
    job.params.check_versions(Inputs(opened))
    if made := job.made(store):
        return _reused(store, made, group)
    if job.step.kind == "map":
        return _run_map(store, job, opened, group, workers)
    if group:
        raise InputError(f"{job.step.name} is a {job.step.kind} step and has no groups of parts; drop --group")
    # A growing dataset has one history, whoever asks; other versions do not depend on what else is made.
    with store.alone(digest(job.dataset) if job.step.grows else job.ref.version):
        if made := job.made(store):
            return _reused(store, made, group)
        job.refuse_setback(store)
        return _run_whole(store, job, opened, workers)


def _reused(store: Store, ref: Ref, group: tuple[int, int] | None) -> Outcome:
    """Without the rows in: which rows of its inputs, or of files beside them, count is up to the body."""
    if not group:
        latest.leave_latest(store, ref)
    manifest = load_manifest(store, ref)
    counters = Counter(
        rows_out=manifest.rows,
        rows_rejected=sum(p.rows for p in manifest.rejects),
        parts_reused=len(manifest.parts),
    )
    return Outcome(None if group else ref, True, counters)


def _run_map(
    store: Store, job: Job, opened: dict[str, list[Version]], group: tuple[int, int] | None, workers: int
) -> Outcome:
    before = latest.current(store, job.dataset)
    source = Inputs(opened)[next(iter(job.step.reads))]
    i, n = group or (0, 1)
    mine = range(i, len(source.manifest.parts), n)
    records = memo.lookup_all(store, job, source, mine)
    todo = [index for index, record in records.items() if record is None]
    counters: Counter[str] = Counter(parts_built=len(todo), parts_reused=len(records) - len(todo))
    with (
        counted(counters),
        meter(job.step.name, len(todo), "parts") as progress,
        engine_of(job.step, job.params, workers) as engine,
    ):
        for place, record in engine.each(partial(memo.compute, store, job, opened), todo):
            records[todo[place]] = record
            counters.update({k: v for k, v in record.counters.items() if k not in memo.ROW_COUNTERS})  # type: ignore[misc]
            progress.advance()
    built = [record for index in todo if (record := records[index])]
    counters["rows_built"] = sum(int(record.counters["rows_in"]) for record in built)
    done = [record for record in records.values() if record]
    for record in done:
        counters.update({k: int(record.counters[k]) for k in memo.ROW_COUNTERS})
    if group:
        return Outcome(None, not todo, counters)
    carried = [r for r in source.manifest.removals if job.step.writes and job.step.writes.has(r.column)]
    live = (memo.live_rejects(store, source, index, record) for index, record in records.items() if record)
    rejects = [part for part in live if part]
    manifest = _publish(store, job, opened, before, [record.output for record in done], carried, rejects)
    counters["rows_in"], counters["rows_out"] = source.manifest.rows, manifest.rows  # less what was removed since
    counters["rows_rejected"] = sum(part.rows for part in rejects)
    for index in todo:
        store.drop_scratch(memo.part_digest(job, source.manifest.parts[index]))
    return Outcome(job.ref, False, counters)


def _run_whole(store: Store, job: Job, opened: dict[str, list[Version]], workers: int) -> Outcome:
    before = latest.current(store, job.dataset)
    previous = job.previous(store) if job.step.grows else None
    name = digest(job.ref.version, previous.manifest.id) if previous else job.ref.version
    with engine_of(job.step, job.params, workers, partial(last_left, store)) as engine:
        if job.step.kind == "partitioned":
            run, parts = give(store, job, opened, previous, engine, name)
        else:
            ((_, (run, parts)),) = engine.each(partial(give, store, job, opened, previous, None), [name])
        outcome = _committed(store, job, opened, before, run, parts)
        run.forget_passing()
        store.drop_scratch(name)
        if job.step.kind == "reduce":
            _forget_checkpoints(store, engine, name)
    return outcome


def _forget_checkpoints(store: Store, engine: Engine, name: str) -> None:
    """Drop the scratch folder where the version was made."""
    try:
        engine.tidy(store.drop_scratch, name)
    except TransientError as error:
        log.warning("checkpoints stay on a node, in the folder %s of its store's scratch: %s", name, error)


def _committed(
    store: Store,
    job: Job,
    opened: dict[str, list[Version]],
    before: bytes | None,
    run: PartitionedRun,
    parts: list[Part],
) -> Outcome:
    job.check_unchanged()
    rejects = run.rejects_table()
    reject_parts = [write_rows(store, rejects)] if rejects.num_rows else []
    counters = run.counters
    counters.setdefault("rows_in", sum(v.manifest.rows for versions in opened.values() for v in versions))
    counters["rows_rejected"] = rejects.num_rows
    removals: list[Removal] = []
    built = len(parts)
    if job.step.keeps:
        parts, removals = _parts_to_keep(store, job, opened, rejects)
    elif job.step.grows:
        previous = run.previous
        growth = grow(store, job, run, parts, reject_parts)
        if previous and growth.job is None:
            asked = Request(id=job.ref.version, params=job.identity, inputs=job.input_names)
            note_request(store, previous.manifest, asked)
            latest.leave_latest(store, previous.manifest.ref)
            counters.update(parts_reused=len(growth.parts), rows_out=previous.manifest.rows)
            return Outcome(previous.manifest.ref, True, counters)
        job, parts, removals = growth.job or job, growth.parts, growth.removals
    manifest = _publish(store, job, opened, before, parts, removals, reject_parts)
    counters.update(parts_built=built or len(parts), rows_out=manifest.rows)
    return Outcome(job.ref, False, counters)


def _parts_to_keep(
    store: Store, job: Job, opened: dict[str, list[Version]], rejects: pa.Table
) -> tuple[list[Part], list[Removal]]:
    parts: list[Part] = []
    removals: list[Removal] = []
    for name in job.step.keeps:
        for version in opened.get(name, []):
            removals += [r.shifted(len(parts)) for r in version.manifest.removals]
            parts += version.manifest.parts
    if rejects.num_rows and job.step.writes:
        keys = pa.table({"key": rejects["row_id"].unique().sort()}, schema=REMOVED)
        removals.append(Removal(part=write_rows(store, keys), column=job.step.writes.key, first=0, last=len(parts)))
    return parts, removals


def _publish(
    store: Store,
    job: Job,
    opened: dict[str, list[Version]],
    before: bytes | None,
    parts: list[Part],
    removals: list[Removal],
    rejects: list[Part],
) -> Manifest:
    ref, schema = job.ref, job.step.writes
    read = [] if schema else [version.manifest for versions in opened.values() for version in versions]
    manifest = Manifest(
        dataset=ref.dataset,
        id=ref.version,
        step=job.step.name,
        code_version=job.step.version,
        rows_schema=schema.name if schema else FILES,
        key=schema.key if schema else "name",
        params=job.identity,
        inputs=job.input_names,
        rows=sum(part.rows for part in parts),
        parts=parts,
        removals=removals,
        rejects=rejects,
        licences=licences_of(store, job),
        learned_from={str(m.ref): m.content for m in read if m.erased or m.learned_from},
    )
    if schema and removals:
        manifest = manifest.model_copy(update={"rows": manifest.rows - len(RemovedRows.of(store, manifest))})
    return latest.publish(store, manifest, before)


def _peak_memory_bytes() -> int:
    """Largest resident size of this process or of one of its children, in bytes (Linux counts KiB)."""
    usage = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(usage) * 1024
