"""Datasets that grow: a body names every row that should exist now, only the difference is written.

This is how the outside world (a URL list, a folder) enters: old parts stay as they are, so that every map step after it
finds them in its memo; new and changed rows come in new parts, rows that are gone become removals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.manifest import LATEST, Part, Ref, Removal, version_id
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import REMOVED, Version, resolve, write_rows

PREVIOUS = "previous"


@dataclass(frozen=True)
class Grown:
    """The version that holds the wanted rows; ``unchanged`` where it is the latest already."""

    ref: Ref
    previous: Ref | None
    content_sha256: str
    rows_in: int
    parts: list[Part]
    removals: list[Removal]
    unchanged: bool = False

    def job(self, job: Job) -> Job:
        """``job`` with what its version id is made from: the previous version and the content."""
        inputs = job.inputs | ({PREVIOUS: [self.previous]} if self.previous else {})
        return replace(job, params=_Grown(job.params, self.content_sha256), inputs=inputs)


class _Grown(StepParams):
    """Parameters plus the content found outside."""

    params: StepParams
    content_sha256: str

    def __init__(self, params: StepParams, content_sha256: str) -> None:
        super().__init__(params=params, content_sha256=content_sha256)  # type: ignore[call-arg]

    def identity(self) -> dict:
        return self.params.identity() | {"content_sha256": self.content_sha256}


def appended(store: Store, job: Job, tables: Iterable[pa.Table]) -> Grown:
    """Compare the wanted rows with the latest version and write what differs, ``params.part_rows`` rows a part.

    Raises:
        InputError: two rows share a key.
    """
    schema = job.step.writes
    if schema is None or "part_rows" not in job.step.params.model_fields:
        raise InputError(f"{job.step.name}: a step that appends needs writes= and a parameter part_rows")
    wanted = {}
    rows = [row for table in tables for row in table.to_pylist()]
    for row in rows:
        if row[schema.key] in wanted:
            raise InputError(f"{job.step.name}: two rows have {schema.key} {row[schema.key]!r}; keep one of them")
        wanted[row[schema.key]] = row
    latest = _latest(store, job.dataset)
    live = {row[schema.key]: row for table in latest.parts() for row in table.to_pylist()} if latest else {}
    new = [row for key, row in wanted.items() if live.get(key) != row]
    gone = sorted(key for key, row in live.items() if wanted.get(key) != row)
    content = digest([wanted[key] for key in sorted(wanted)])
    previous = latest.manifest.ref if latest else None
    if latest and not new and not gone:
        old = latest.manifest
        return Grown(old.ref, previous, content, len(rows), old.parts, old.removals, unchanged=True)
    parts = list(latest.manifest.parts) if latest else []
    removals = list(latest.manifest.removals) if latest else []
    if gone:
        keys = pa.table({"key": gone}, schema=REMOVED)
        removals.append(Removal(part=write_rows(store, keys), column=schema.key, first=0, last=len(parts)))
    size = job.params.model_dump()["part_rows"]
    parts += [write_rows(store, schema.table(new[i : i + size])) for i in range(0, len(new), size)]
    grown = Grown(job.ref, previous, content, len(rows), parts, removals)
    named = grown.job(job)
    version = version_id(named.step.name, named.step.version, named.identity, named.input_names)
    return replace(grown, ref=Ref(dataset=job.dataset, version=version))


def _latest(store: Store, dataset: str) -> Version | None:
    if store.read(f"refs/{dataset}/{LATEST}") is None:
        return None
    return Version.open(store, resolve(store, Ref(dataset=dataset)))
