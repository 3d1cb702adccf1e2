"""Which requests a version of a growing dataset answers.

A request is a step, its parameters and its inputs, without the version that it grows from. The one that made a version
is told by its manifest. Others may find nothing to change: they are noted beside it, so that they are answered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.manifest import PREVIOUS, Manifest, Ref, version_id
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import load_manifest, manifest_key

CHANGE = "change_sha256"


class Request(BaseModel):
    """One request: its id, its parameters and what it read; older notes do not say the last."""

    model_config = ConfigDict(frozen=True)

    id: str
    params: dict[str, Any]
    inputs: dict[str, list[str]] = {}


_REQUESTS = TypeAdapter(list[Request])


def requests_key(ref: Ref) -> str:
    """Where the requests that ``ref`` answers, beside the one that made it, are kept."""
    return f"requests/{ref.dataset}/{ref.version}.json"


def requests(store: Store, manifest: Manifest) -> list[Request]:
    """Every request that this version answers, the one that made it first."""
    params = {name: value for name, value in manifest.params.items() if name != CHANGE}
    inputs = {name: refs for name, refs in manifest.inputs.items() if name != PREVIOUS}
    made = Request(id=version_id(manifest.step, manifest.code_version, params, inputs), params=params, inputs=inputs)
    return [made, *_stored_requests(store, manifest.ref)]


def refs_behind(store: Store, manifest: Manifest, is_there: Callable[[Ref], bool]) -> list[Ref]:
    """The versions that ``manifest`` is of, without what it grew from.

    Of a growing dataset those of its last request whose versions are all there, else of the one that made it. Older
    notes do not say what a request read.
    """
    asked = requests(store, manifest) if CHANGE in manifest.params else [manifest]
    made, *later = ([Ref.parse(name).of_rows for names in each.inputs.values() for name in names] for each in asked)
    return next((refs for refs in reversed(later) if refs and all(map(is_there, refs))), made)


def _stored_requests(store: Store, ref: Ref) -> list[Request]:
    """What was noted; nothing where a power cut left no list: such a request is answered anew."""
    try:
        return _REQUESTS.validate_json(store.read(requests_key(ref)) or b"[]")
    except ValidationError:
        return []


def note_request(store: Store, manifest: Manifest, request: Request) -> None:
    """Remember that ``manifest`` answers ``request``, too, and that it was the last; one process at a time may."""
    others = [r for r in _stored_requests(store, manifest.ref) if r.id != request.id]
    noted = [r.model_dump(mode="json") for r in (*others, request)]
    store.replace(requests_key(manifest.ref), canonical_json(noted))


def before(store: Store, manifest: Manifest) -> Ref | None:
    """The version that ``manifest`` grew from, if it is there: old ones are dropped, and nothing needs them."""
    ref = Ref.parse(manifest.inputs[PREVIOUS][0]) if PREVIOUS in manifest.inputs else None
    return ref if ref and store.exists(manifest_key(ref)) else None


def ancestry(store: Store, manifest: Manifest) -> Iterator[Manifest]:
    """``manifest`` and the versions that it grew from, as far as they are there, the newest first."""
    yield manifest
    while ref := before(store, manifest):
        manifest = load_manifest(store, ref)
        yield manifest


def history(store: Store, manifest: Manifest) -> Iterator[dict[str, Any]]:
    """Parameters of the requests that led to ``manifest``, the last one first, through the versions before it."""
    for version in ancestry(store, manifest):
        yield from (request.params for request in reversed(requests(store, version)))
