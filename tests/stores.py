"""Datasets made by hand, and steps run over them: for tests that need a store with a few known rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.step import Step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, commit, point


def put(
    store: Store, schema: RowSchema, *parts: list[dict], dataset: str = "", params: dict | None = None, **made_from: Ref
) -> Ref:
    """A version of ``dataset`` with these rows, as if ``made_from`` these; columns that a row leaves out are null."""
    written = [write_rows(store, schema.table(rows)) for rows in parts]
    inputs = {name: [str(ref)] for name, ref in made_from.items()}
    manifest = Manifest(
        dataset=dataset or schema.name,
        id=short_id([part.sha256 for part in written], *([params, inputs] if params else [])),
        step="by_hand",
        code_version="1",
        rows_schema=schema.name,
        key=schema.key,
        params=params or {},
        inputs=inputs,
        rows=sum(part.rows for part in written),
        parts=written,
    )
    commit(store, manifest)
    point(store, manifest.ref)
    return manifest.ref


def note_run(store: Store, ref: Ref, counters: dict, *, kind: str = "COMPLETE", reused: bool = False) -> None:
    """The events of a run that made ``ref``, found it made, or (FAIL) failed to make it; and what it counted."""
    log = EventLog(store, "by_hand", "1")
    facts = {"dataset": ref.dataset, "request_id": ref.version}
    log.emit("START", inputs={}, output=None, facts=facts)
    output = str(ref) if kind == "COMPLETE" else None
    log.emit(kind, inputs={}, output=output, facts=facts | {"reused": reused, "counters": counters})


def put_part(store: Store, data: bytes) -> str:
    """The key of an object with these bytes."""
    sha256 = hashlib.sha256(data).hexdigest()
    key = f"objects/{sha256[:2]}/{sha256}"
    with store.temporary() as path:
        path.write_bytes(data)
        store.create_from(key, path)
    return key


def go(store: Store, step: Step, given: dict[str, list[str]] | None = None, **values: Any) -> Outcome:
    """Run ``step`` with these parameters and, where ``given``, inputs."""
    return run_job(store, plan(store, step, values, given))


def rows(store: Store, dataset: str) -> list[dict]:
    """All live rows of the latest version."""
    return [row for part in Version.open(store, Ref.parse(dataset)).parts() for row in part.to_pylist()]


def reasons(store: Store, dataset: str) -> Counter[str]:
    """How many rows were refused for each reason."""
    version = Version.open(store, Ref.parse(f"{dataset}/rejects"))
    return Counter(row["reason"] for part in version.parts() for row in part.to_pylist())


def rejects(store: Store, dataset: str) -> dict[str, dict]:
    """Refused rows by their key."""
    version = Version.open(store, Ref.parse(f"{dataset}/rejects"))
    return {row["row_id"]: row for part in version.parts() for row in part.to_pylist()}


def bare_run(store: Store) -> Run:
    """What a body is given, where a test calls one without the runner."""
    return Run(store, Inputs({}), 0, "test", "test")
