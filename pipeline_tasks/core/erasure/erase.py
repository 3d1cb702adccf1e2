"""Carries an erasure out. Killed anywhere, it is run again and goes on; run again when it is done, it finds nothing.

Versions keep their ids: an id names the work, and the work is the same without the document. Their parts are written
anew without the rows, each in its place, so that removals and the memo's order hold, and the manifest says by which
erasure. What is found is listed before anything goes, because the first rows to go are those that lead to the others.
No step runs meanwhile: one that does would write from memory what was just taken away.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.erasure import answers, listed, rows
from pipeline_tasks.core.erasure.proof import Findings, prove
from pipeline_tasks.core.erasure.search import (
    blotted,
    brief_texts,
    holds,
    long_texts,
    mentioned,
    parts_ahead,
    short_texts,
)
from pipeline_tasks.core.erasure.this_machine import clean_this_machine
from pipeline_tasks.core.erasure.weights import drop, made_by, trained_on_it
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.memo import Record
from pipeline_tasks.core.manifest import Manifest, Part, Ref
from pipeline_tasks.core.paid.batch_notes import check_no_batch_is_open
from pipeline_tasks.core.parts import damage_told, read_part, write_rows
from pipeline_tasks.core.pins import Deletion, deletion, living_pins
from pipeline_tasks.core.removals import RemovedRows
from pipeline_tasks.core.schema import REJECTS, RowSchema
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.protocol import sha256_in
from pipeline_tasks.core.upkeep.gc import manifests_at
from pipeline_tasks.core.versions import REMOVED, bring_ahead, manifest_key

log = logging.getLogger(__name__)


@dataclass
class Erased:
    """What an erasure came to.

    Attributes:
        ids: everything that it took, by id, sha256 or address.
        rows: dataset -> rows that its versions lost, a row that several share counted once.
        versions: those that were written anew.
        models: versions of files that were trained on one of these, now or by an earlier erasure: these keep what they
            learned.
        by_models: versions of rows that were made by one of these: their scores.
        answers: stored answers that went, or would.
        findings: what a look at the whole store found afterwards.
    """

    ids: set[str]
    rows: Counter[str] = field(default_factory=Counter)
    versions: list[Ref] = field(default_factory=list)
    models: list[Manifest] = field(default_factory=list)
    by_models: list[Manifest] = field(default_factory=list)
    answers: int = 0
    findings: Findings | None = None


@dataclass
class _Work:
    """One erasure under way: what each part is and became, and what the lost rows lead to beside datasets."""

    store: Store
    schemas: Mapping[str, RowSchema]
    name: str
    done: Erased
    became: dict[str, Part] = field(default_factory=dict)
    lost: answers.Lost = field(default_factory=answers.Lost)
    dry_run: bool = False


def erase(
    store: Store,
    asked: Collection[str],
    schemas: Mapping[str, RowSchema],
    *,
    dry_run: bool = False,
    drop_models: bool = False,
) -> Erased:
    """Take what ``asked`` names (ids, sha256, addresses) and all that was made from it out of every version.

    Args:
        store: the store; no step may run.
        asked: what shall go.
        schemas: of all datasets, by name.
        dry_run: only find what would go.
        drop_models: also forget models that were trained on it, and their scores, if no trace of it is left elsewhere.

    Raises:
        TransientError: steps run, or batches are on their way; nothing was touched.
        InputError: a manifest or part cannot be read.
    """
    if dry_run:
        work = _Work(store, schemas, listed.name_of(asked), Erased({*asked, *listed.erased_ids(store)}), dry_run=True)
        manifests = _manifests(store)
        _spread(work, manifests)
        _look(work, manifests)
        work.done.answers = len(answers.of_rows(store, work.lost, work.done.ids))
        _tell_models(work, [_rewritten(work, manifest) for manifest in manifests])
        return work.done
    with deletion(store) as right:
        if running := sorted({run.step for run in living_pins(store)}):
            raise TransientError(f"{', '.join(running)} runs; erase again when it has ended, or stop it")
        check_no_batch_is_open(store)
        work = _Work(store, schemas, listed.name_of(asked), Erased({*asked, *listed.erased_ids(store)}))
        _carry_out(work, right, drop_models=drop_models)
    return work.done


def _carry_out(work: _Work, right: Deletion, *, drop_models: bool) -> None:
    store, done = work.store, work.done
    manifests = _manifests(store)
    _spread(work, manifests)
    erasure = listed.Erasure(name=work.name, ids=listed.lasting(done.ids))
    listed.note(store, erasure)
    _look(work, manifests)
    gone = answers.of_rows(store, work.lost, done.ids)
    answers.forget(store, gone, right)
    done.answers = len(gone)
    changed = [_rewritten(work, manifest) for manifest in manifests]
    answers.hand_on(store, work.became, right)
    for before, after in zip(manifests, changed, strict=True):
        if after != before:
            store.replace(manifest_key(after.ref), after.to_bytes())
            done.versions.append(after.ref)
    _drop_parts(work, right, {part.key for manifest in changed for part in manifest.objects})
    _blot(work)
    left = clean_this_machine(store)
    _tell_models(work, changed)
    done.findings = prove(store, done.ids, work.lost)
    for path in left:
        done.findings.note("work in progress that cannot go", path, True)
    if done.findings.clean:
        listed.note(store, erasure.model_copy(update={"done": True}))
        if drop_models:
            drop(store, done.models, done.by_models, right)


def _tell_models(work: _Work, manifests: list[Manifest]) -> None:
    work.done.models = trained_on_it(manifests)
    work.done.by_models = made_by(work.done.models, manifests)


def _manifests(store: Store) -> list[Manifest]:
    written = sorted(store.entries("versions"), key=lambda entry: (entry.modified, entry.key))
    return list(manifests_at(store, (entry.key for entry in written)).values())


def _tables(work: _Work, manifests: Iterable[Manifest]) -> Iterable[tuple[Manifest, Part, rows.Reach]]:
    """Every part of rows once, with how far an erasure goes in it."""
    keys, once = frozenset(schema.key for schema in work.schemas.values()), dict[str, tuple[Manifest, Part]]()
    for manifest in manifests:
        if manifest.rows_schema in work.schemas:
            for part in manifest.parts:
                once.setdefault(part.sha256, (manifest, part))
    for manifest, part in bring_ahead(work.store, ((found, found[1]) for found in once.values())):
        yield manifest, part, rows.Reach(work.schemas[manifest.rows_schema], keys)


def _ids_of(store: Store, part: Part, *, lists: bool) -> pa.Table:
    with damage_told(store, part.key):
        schema = pq.read_schema(store.local_path(part.key))
    return read_part(store, part, [*rows.id_columns(schema), *(rows.id_lists(schema) if lists else [])])


def _spread(work: _Work, manifests: list[Manifest]) -> None:
    """Add to the ids all that was made from them, however far down the chain."""
    ids, known = work.done.ids, -1
    while known != len(ids):
        known = len(ids)
        for _, part, reach in _tables(work, manifests):
            ids |= reach.spread(_ids_of(work.store, part, lists=False), ids)


def _look(work: _Work, manifests: list[Manifest]) -> None:
    """Which parts change, and what the rows that go lead to: stored answers, and texts by which copies are known."""
    store, ids = work.store, work.done.ids
    for manifest, part, reach in _tables(work, manifests):
        named = _ids_of(store, part, lists=True)
        if reach.rest(named, ids) is not named:
            work.lost.touched.add(part.sha256)
        if reach.made_from(named, ids).num_rows:
            table = read_part(store, part)
            gone = reach.made_from(table, ids)
            work.done.rows[manifest.dataset] += gone.num_rows
            work.lost.named |= rows.responses_of(gone)
            if not reach.refers:
                work.lost.texts |= long_texts(gone)
                work.lost.short |= short_texts(gone)
                work.lost.brief |= brief_texts(gone)
            work.lost.others |= brief_texts(reach.rest(table, ids))


def _rewritten(work: _Work, manifest: Manifest) -> Manifest:
    """``manifest`` with parts that hold nothing of it any more; itself where they never did."""
    store, ids = work.store, work.done.ids
    schema = work.schemas.get(manifest.rows_schema)
    reach = rows.Reach(schema, frozenset(s.key for s in work.schemas.values())) if schema else None
    parts = [_part(work, part, reach) for part in manifest.parts] if reach else manifest.parts
    beside = (*manifest.rejects, *(r.part for r in manifest.removals))
    store.bring(part.key for part in beside if part.sha256 not in work.became)
    rejects = [_part(work, part) for part in manifest.rejects]
    removals = [r.model_copy(update={"part": _part(work, r.part)}) for r in manifest.removals]
    params = json.loads(blotted(json.dumps(manifest.params), ids, listed.REASON))
    update = {"parts": parts, "rejects": rejects, "removals": removals, "params": params}
    if all(getattr(manifest, name) == value for name, value in update.items()):
        return manifest
    after = manifest.model_copy(update=update | {"erased": sorted({*manifest.erased, work.name})})
    if work.dry_run:
        return after
    log.info("%s is written anew without %d ids", manifest.ref, len(ids))
    removed = len(RemovedRows.of(store, after)) if schema else 0
    return after.model_copy(update={"rows": sum(part.rows for part in parts) - removed})


def _part(work: _Work, part: Part, reach: rows.Reach | None = None) -> Part:
    """What ``part`` becomes: rows of a dataset, or without ``reach`` rejects or keys of removals."""
    if part.sha256 in work.became:
        return work.became[part.sha256]
    if part.name or (reach and part.sha256 not in work.lost.touched):
        return part
    table, ids = read_part(work.store, part), work.done.ids
    if reach:
        left = reach.rest(table, ids)
    elif table.column_names == REMOVED.names:
        left = rows.keys_left(table, ids)
    else:
        left = _rejects_left(table, ids)
    if left.equals(table):
        return work.became.setdefault(part.sha256, part)
    new = Part(sha256="", rows=left.num_rows, size_bytes=0) if work.dry_run else write_rows(work.store, left)
    return work.became.setdefault(part.sha256, new)


def _rejects_left(table: pa.Table, ids: set[str]) -> pa.Table:
    """Rejects without those of ``ids``; where only the detail mentions one, the detail goes."""
    left = [row for row in table.to_pylist() if row["row_id"] not in ids]
    for row in left:
        if mentioned(row["detail"] or "", ids):
            row["detail"] = listed.REASON
    return REJECTS.table(left)


def _drop_parts(work: _Work, right: Deletion, named: set[str]) -> None:
    """Old parts, parts that no version names and that hold one of the ids or are damaged, and records of either.

    Of partitions all goes that no version names: a table of words and numbers does not tell whose they are.
    """
    store, ids = work.store, work.done.ids
    unnamed = (entry for entry in store.entries("objects") if entry.key not in named)
    lost = {entry.key: entry for entry in unnamed if entry.key.endswith(".parquet")}
    replaced = {sha256 for sha256, part in work.became.items() if part.sha256 != sha256}
    ahead = parts_ahead(store, lost.values())
    gone = {key for key in ahead if sha256_in(key) in replaced or _may_hold(store, key, ids)}
    dead, needed = [], set()
    for key, data in store.read_all(store.keys("memo")):
        record = Record.read(data)
        made = {part.key for part in record.made} if record else set()
        if record is None or record.partial or gone & made or _skips(record, ids):
            dead.append(key)
        else:
            needed |= made
    right.delete_all(dead)
    right.delete_all(sorted(lost.keys() - (needed - gone)))


def _may_hold(store: Store, key: str, ids: set[str]) -> bool:
    try:
        return holds(store, key, ids)
    except InputError as error:
        log.warning("%s goes, since no version names it and nobody can say what it holds: %s", key, error)
        return True


def _skips(record: Record, ids: set[str]) -> bool:
    return any(key in ids for keys in record.skipped.values() for key in keys)


def _blot(work: _Work) -> None:
    """Blot the ids out of events and requests that mention one: in an error's message, or a parameter."""
    for kind in ("lineage/events", "requests"):
        for key, data in work.store.read_all(work.store.keys(kind)):
            text = (data or b"").decode("utf-8", "replace")
            clean = blotted(text, work.done.ids, listed.REASON)
            if clean != text:
                work.store.replace(key, clean.encode())
