"""Lineage events: one OpenLineage-shaped JSON file per step start, complete or fail.

Many writers need no lock, and the lineage database can always be folded again from these files and the manifests.
Source: OpenLineage 2-0-2 run event; our own facts sit in the run facet ``foundry``.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from pipeline_tasks import __version__
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.runtime import runtime
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store

PREFIX = "lineage/events"
NAMESPACE = "retriever-foundry"
PRODUCER = f"https://github.com/retriever-foundry/retriever-foundry/tree/v{__version__}"
SCHEMA_URL = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"


def _dataset(name: str) -> dict[str, Any]:
    ref = Ref.parse(name)
    facet = {"_producer": PRODUCER, "_schemaURL": SCHEMA_URL, "datasetVersion": ref.version}
    return {"namespace": NAMESPACE, "name": ref.dataset, "facets": {"version": facet}}


class _Runtime(BaseModel):
    """What a run ran on; releases before did not say it."""

    python: str | None = None
    processor: str | None = None
    device: str | None = None
    threads: int | None = None
    packages: dict[str, str] | None = None


class _Name(BaseModel):
    name: str


class _Moved(_Name):
    before: str | None = None
    by: str


class _Facts(BaseModel):
    codeVersion: str
    runtime: _Runtime = _Runtime()
    release: str | None = None
    image: str | None = None
    dataset: str | None = None
    group: str | None = None
    request_id: str | None = None
    error: str | None = None
    duration_s: float | None = None
    reused: bool | None = None
    peak_memory_bytes: int | None = None
    engine: str | None = None
    workers: int | None = None
    counters: dict[str, float] = {}
    moved: _Moved | None = None


class _Facets(BaseModel):
    foundry: _Facts


class _RunOf(BaseModel):
    runId: str
    facets: _Facets


class _VersionFacet(BaseModel):
    datasetVersion: str


class _OutputFacets(BaseModel):
    version: _VersionFacet


class _Output(_Name):
    facets: _OutputFacets


class Event(BaseModel):
    """What is read of an event; older releases told less."""

    eventType: str
    eventTime: datetime
    run: _RunOf
    job: _Name
    outputs: list[_Output] = []


def built_and_used(store: Store) -> tuple[dict[str, float], dict[str, float]]:
    """``dataset@version`` -> when a run last built it, and when one last built it, found it or let a name mean it.

    Units: seconds since 1970; the first by the clock of the run's machine, the second by the store's. Copies of a store
    and erasures write manifests anew, which says nothing of their age; events stay as they are. What is no such event,
    as after a power cut, says nothing here: folding the lineage tells of it.
    """
    built: dict[str, float] = {}
    used: dict[str, float] = {}
    written = {entry.key: entry.modified for entry in store.entries(PREFIX) if entry.key.endswith("-complete.json")}
    for key, data in store.read_all(written):
        try:
            event = Event.model_validate_json(data or b"")
        except ValidationError:
            continue
        is_built = event.run.facets.foundry.reused is False  # one that moved a ref, or found its version, is none
        for output in event.outputs:
            ref = f"{output.name}@{output.facets.version.datasetVersion}"
            used[ref] = max(used.get(ref, 0.0), written[key])
            if is_built:
                built[ref] = max(built.get(ref, 0.0), event.eventTime.timestamp())
    return built, used


class EventLog:
    """Writes the events of one run of one step."""

    def __init__(self, store: Store, step: str, code_version: str) -> None:
        self._store, self._step, self._code_version = store, step, code_version
        self.run_id = str(uuid.uuid4())

    def emit(self, kind: str, *, inputs: dict[str, list[str]], output: str | None, facts: dict[str, Any]) -> None:
        """Write one event.

        Args:
            kind: START, COMPLETE or FAIL.
            inputs: input name -> ``dataset@version``.
            output: ``dataset@version`` where one was made.
            facts: counters, parameters, error; what ``steps`` and ``counters`` of the lineage hold.
        """
        now = datetime.now(UTC)
        facet: dict[str, Any] = {"_producer": PRODUCER, "_schemaURL": SCHEMA_URL, "codeVersion": self._code_version}
        facet |= {"release": __version__, "image": settings().built_image, "runtime": runtime()}
        event = {
            "eventType": kind,
            "eventTime": now.isoformat(),
            "run": {"runId": self.run_id, "facets": {"foundry": facet | facts}},
            "job": {"namespace": NAMESPACE, "name": self._step},
            "inputs": [_dataset(name) for names in inputs.values() for name in names],
            "outputs": [_dataset(output)] if output else [],
            "producer": PRODUCER,
            "schemaURL": SCHEMA_URL,
        }
        name = f"{PREFIX}/{now:%Y%m%dT%H%M%S.%f}-{self.run_id[:8]}-{kind.lower()}.json"
        self._store.create(name, json.dumps(event, ensure_ascii=False).encode())
