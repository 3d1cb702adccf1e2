"""The facts in a store's JSON files, as rows for the lineage tables: events, manifests, paid answers.

A file that is not what it should be becomes a row of ``problems``; it never stops the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.events import Event
from pipeline_tasks.core.execution.memo import RECEIPTS
from pipeline_tasks.core.licences import is_non_commercial
from pipeline_tasks.core.manifest import LATEST, Manifest, Part, Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import manifest_key, refs

VERSIONS = "versions"
RESPONSES = "responses"
Rows = list[dict[str, Any]]
_Model = TypeVar("_Model", bound=BaseModel)
_STATUS = {"START": "unfinished", "COMPLETE": "complete", "FAIL": "failed"}


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Request(BaseModel):
    model: str = ""


class _Answer(BaseModel):
    usage: _Usage = _Usage()
    finish_reason: str = ""
    created: int = 0


class _Record(BaseModel):
    provider: str = ""
    request: _Request
    response: _Answer
    cost_usd: float


class _Receipt(BaseModel):
    responses: list[str]


CREATED = """
UPDATE versions SET created_at = built.ended_at FROM (
    SELECT dataset, version, min(ended_at) AS ended_at FROM steps
    WHERE status = 'complete' AND version IS NOT NULL AND NOT coalesce(reused, false) GROUP BY ALL
) built WHERE built.dataset = versions.dataset AND built.version = versions.version"""
"""A version was made when the first run that built it completed."""


def naive_utc(moment: datetime) -> datetime:
    """``moment`` in UTC without its zone, as the tables hold it."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def _parsed(store: Store, keys: Iterable[str], model: type[_Model], problems: Rows) -> Iterator[tuple[str, _Model]]:
    for key, data in store.read_all(keys):
        if data is None:
            continue
        try:
            yield key, model.model_validate_json(data)
        except ValidationError as error:
            problems.append({"key": key, "problem": str(error)[:500]})


def event_rows(store: Store, keys: Iterable[str], runs: dict[str, dict[str, Any]], problems: Rows) -> dict[str, Rows]:
    """Rows of ``events``, ``counters`` and ``moves`` for the events ``keys``, which are in rising order.

    ``runs``, run id to row of ``steps``, gains what they say; a run has one row, from its START and whatever ended it.
    """
    counters: Rows = []
    moves: Rows = []
    read: Rows = []
    for key, event in _parsed(store, keys, Event, problems):
        if event.eventType not in _STATUS:
            problems.append({"key": key, "problem": f"unknown eventType {event.eventType!r}"})
            continue
        read.append({"key": key})
        facts, moment = event.run.facets.foundry, naive_utc(event.eventTime)
        version = event.outputs[0].facets.version.datasetVersion if event.outputs else None
        if moved := facts.moved:
            head = {"dataset": facts.dataset, "name": moved.name, "version": version}
            moves.append(head | {"version_before": moved.before, "moved_at": moment, "moved_by": moved.by})
            continue
        run = runs.setdefault(event.run.runId, {"run_id": event.run.runId, "status": "unfinished"})
        if event.eventType == "START":
            run["started_at"] = moment
            if run["status"] != "unfinished":
                continue  # its end was read by a fold before, and says all else better
        run |= {"step": event.job.name, "code_version": facts.codeVersion, "part_group": facts.group}
        run |= {"request_id": facts.request_id, "release": facts.release, "image": facts.image}
        run |= facts.runtime.model_dump()
        run.setdefault("dataset", facts.dataset)
        if event.eventType == "START":
            continue
        run |= facts.model_dump(include={"duration_s", "reused", "peak_memory_bytes", "error", "engine", "workers"})
        run |= {"status": _STATUS[event.eventType], "ended_at": moment, "version": version}
        head = {"run_id": event.run.runId, "step": event.job.name, "dataset": facts.dataset, "version": version}
        counters += [head | {"name": name, "value": value} for name, value in facts.counters.items()]
    return {"events": read, "counters": counters, "moves": moves}


def manifests(store: Store, keys: Iterable[str], problems: Rows) -> list[Manifest]:
    """Those of the manifests ``keys`` that are readable and fit the name they are filed under."""
    found = []
    for key, manifest in _parsed(store, keys, Manifest, problems):
        try:
            _inputs(manifest)
            ref = manifest.ref
        except InputError as error:
            problems.append({"key": key, "problem": str(error)})
            continue
        if key == manifest_key(ref):
            found.append(manifest)
        else:
            problems.append({"key": key, "problem": f"the manifest inside calls itself {ref}"})
    return found


def version_rows(store: Store, found: list[Manifest]) -> dict[str, Rows]:
    """Rows of ``versions``, ``version_inputs``, ``parts``, ``params`` and ``licences``.

    ``created_at`` is when the manifest was written; see :data:`CREATED` for what the events say.
    """
    rows: dict[str, Rows] = {"versions": [], "version_inputs": [], "parts": [], "params": [], "licences": []}
    written = {entry.key: entry.modified for entry in store.entries(VERSIONS)} if found else {}
    for m in found:
        head = {"dataset": m.dataset, "version": m.id}
        created = _moment(written.get(manifest_key(m.ref), time.time()))
        rows["versions"].append(_version_row(m) | {"created_at": created, "is_latest": False})
        rows["version_inputs"] += [head | row for row in _inputs(m)]
        rows["parts"] += [head | row for row in _part_rows(m)]
        rows["params"] += [head | {"name": name, "value": _as_text(value)} for name, value in m.params.items()]
        rows["licences"] += [head | row for row in licence_rows(m)]
    return rows


def _version_row(m: Manifest) -> dict[str, Any]:
    return {
        "dataset": m.dataset,
        "version": m.id,
        "step": m.step,
        "code_version": m.code_version,
        "rows": m.rows,
        "bytes": m.size_bytes,
        "parts": len(m.parts),
        "n_removals": sum(removal.part.rows for removal in m.removals),
        "n_rejects": sum(part.rows for part in m.rejects),
        "rows_schema": m.rows_schema,
        "key_column": m.key,
    }


def _inputs(manifest: Manifest) -> Rows:
    return [
        {"input_name": name, "input_dataset": ref.dataset, "input_version": ref.version}
        for name, texts in manifest.inputs.items()
        for ref in map(Ref.parse, texts)
    ]


def licence_rows(m: Manifest) -> Rows:
    """Each model that the version is made with, its licence, and whether that is for no commerce."""
    return [{"model": n, "licence": of, "non_commercial": is_non_commercial(of)} for n, of in m.licences.items()]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def latest_ids(store: Store) -> dict[str, str]:
    """Dataset -> id of the version that ``latest`` names."""
    return {ref.dataset: ref.version for key, ref in refs(store).items() if key.endswith(f"/{LATEST}")}


def _part_rows(manifest: Manifest) -> Iterator[dict[str, Any]]:
    for position, part in enumerate(manifest.parts):
        yield {"position": position, "kind": "part", **_part(part)}
    for position, removal in enumerate(manifest.removals):
        span = {"column_name": removal.column, "first_part": removal.first, "last_part": removal.last}
        yield {"position": position, "kind": "removal", **_part(removal.part), **span}
    for position, part in enumerate(manifest.rejects):
        yield {"position": position, "kind": "reject", **_part(part)}


def _part(part: Part) -> dict[str, Any]:
    return {"name": part.name, "sha256": part.sha256, "rows": part.rows, "size_bytes": part.size_bytes}


def _moment(seconds: float) -> datetime:
    return naive_utc(datetime.fromtimestamp(seconds, UTC))


def response_rows(store: Store, known: set[str], problems: Rows) -> Rows:
    """Rows of ``llm_calls`` for the answers not among ``known`` response ids; a search provider stands as a model."""
    keys = (key for key in store.keys(RESPONSES) if key.endswith(".json") and Path(key).stem not in known)
    return [
        {
            "response_id": Path(key).stem,
            "model": record.request.model or record.provider,
            "prompt_tokens": record.response.usage.prompt_tokens,
            "completion_tokens": record.response.usage.completion_tokens,
            "cost_usd": record.cost_usd,
            "finish_reason": record.response.finish_reason,
            "created_at": _unix_time(record.response.created),
        }
        for key, record in _parsed(store, keys, _Record, problems)
    ]


def receipt_rows(store: Store, known: set[str], problems: Rows) -> Rows:
    """Rows of ``part_responses`` for parts that have a receipt and are not among ``known`` sha256."""
    keys = (key for key in store.keys(RECEIPTS) if Path(key).stem not in known)
    return [
        {"sha256": Path(key).stem, "response_id": name}
        for key, receipt in _parsed(store, keys, _Receipt, problems)
        for name in receipt.responses
    ]


def _unix_time(seconds: int) -> datetime | None:
    """An endpoint may send anything: a moment that is not one is None."""
    return _moment(seconds) if 0 < seconds < 1 << 33 else None
