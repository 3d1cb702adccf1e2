"""On which side of the split a document was before: it is known by its id, its bytes and its address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.execution.remembered import remember, remembered
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import Version, whole

NAMES = ("doc_id", "content_sha256", "url_id")
"""What a document is known by, the surest first: its bytes were trained on, whatever address they come from."""
_SIDES = pa.schema([("name", pa.uint64()), ("split", pa.string())])


@dataclass(frozen=True)
class Before:
    """What the runs before chose.

    Attributes:
        split: by :func:`_hashed` names of documents and their near-duplicates; empty for what was trained on. With
            other parameters than now only of what is held out, by the id of the document.
        stays: the parameters are the same: nothing moves.
    """

    split: Mapping[int, str]
    stays: bool

    @classmethod
    def read(cls, run: Run, identity: Mapping[str, Any]) -> Before:
        """What led to ``run``, whose parameters are ``identity``."""
        rows = [row for part in run.previous.parts() for row in part.to_pylist()] if run.previous else []
        held = {row["doc_id"]: row["split"] for row in rows}
        split = {_hashed(row[name]): row["split"] for row in rows for name in ("doc_id", "url_id") if row[name]}
        if next(run.requests(), identity) != identity:
            return cls({_hashed(doc_id): side for doc_id, side in held.items()}, stays=False)
        for documents in run.read_before("documents"):
            split |= _sides(documents, held)
        table = remembered(run)
        if table:
            split |= zip(table["name"].to_pylist(), table["split"].to_pylist(), strict=True)
        return cls(split, stays=True)

    def of(self, row: Mapping[str, Any]) -> str | None:
        """The side that a document was on: its split, empty where it was trained on; None where it is new."""
        return next((split for name in NAMES if (split := self.split.get(_hashed(row[name]))) is not None), None)

    def remember(self, run: Run, documents: Version, held: Mapping[str, str]) -> None:
        """Let no later run forget on which side all are: a page may be away for a while, or move to another address.

        Args:
            run: what runs.
            documents: what it read.
            held: id of a document -> the split that it is held out for.
        """
        split = _sides(documents, held)
        if self.stays:
            split.update(self.split)
        columns = [pa.array(list(split), pa.uint64()), pa.array(list(split.values()), pa.string())]
        remember(run, pa.table(columns, schema=_SIDES))


def _sides(documents: Version, held: Mapping[str, str]) -> dict[int, str]:
    """Of all ``documents``, and of the near-duplicates that they lack, by each name.

    An address at which a near-duplicate was tells nothing: whatever comes there next may be like nothing held out.
    """
    found: dict[int, str] = {}

    def note(names: Iterable[str], split: str) -> None:
        found.update((key, split or found.get(key, "")) for key in map(_hashed, names))

    for part in documents.parts(list(NAMES)):
        for row in part.to_pylist():
            note(row.values(), held.get(row["doc_id"], ""))
    original = dict(_repeats(documents))
    for doc_id, of in original.items():
        note([doc_id], held.get(of, ""))
    for index in range(len(documents.manifest.parts)):
        gone = documents.removed.rows(index)
        if len(gone) and original:
            for row in documents.all_rows(index, list(NAMES[:2])).take(pa.array(gone)).to_pylist():
                if row["doc_id"] in original:
                    note(row.values(), held.get(original[row["doc_id"]], ""))
    return found


def _repeats(documents: Version) -> Iterator[tuple[str, str]]:
    """Each document that ``documents`` lacks as a near-duplicate, and the one that it was of."""
    for ref in map(Ref.parse, documents.manifest.inputs.get("duplicates", [])):
        if whole(documents.store, ref):
            for part in Version.open(documents.store, ref).parts(["doc_id", "representative_id"]):
                pairs = zip(part["doc_id"].to_pylist(), part["representative_id"].to_pylist(), strict=True)
                yield from ((doc_id, of) for doc_id, of in pairs if doc_id != of)


def _hashed(name: str) -> int:
    """A name as it is kept: neither an id nor an address, so that an erasure leaves nothing of it here."""
    return int(short_id(name), 16)
