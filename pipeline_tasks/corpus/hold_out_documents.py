"""Which documents no model is trained on: those that judged questions quote, and as many more as a test needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.growth import difference
from pipeline_tasks.core.ids import digest, unit_hash
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import GrowthParams, step, tuning
from pipeline_tasks.core.versions import Version, whole
from pipeline_tasks.datasets import DOCUMENTS, HELD_OUT
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.questions import quotes
from pipeline_tasks.domains.quotes import Quotes

_CHARACTERS_A_QUERY = 1_000
"""A passage of 255 tokens is about as long, and gives one query."""


class HoldOutDocumentsParams(GrowthParams):
    """How much is held out, and for what."""

    test_fraction: float = Field(0.25, ge=0, lt=1, description="largest share of documents, and of text, for tests")
    test_documents: int = Field(20, ge=0, description="documents held out for tests at most, besides judged ones")
    test_queries: int = Field(2000, ge=0, description="queries that these give at most, at about one a passage")
    dev_fraction: float = Field(0.15, ge=0, lt=1, description="largest share that chooses checkpoints")
    dev_documents: int = Field(10, ge=0, description="documents that choose checkpoints at most")
    dev_queries: int = Field(1000, ge=0, description="queries that these give at most, at about one a passage")
    judged: bool = Field(True, description="hold out every document that the domain's judged questions quote, too")
    split_salt: str = Field("split", description="another value draws other documents")
    max_withdrawn: float = tuning(1.0, ge=0, le=1, description="largest share that may be held out no more; 1: all")

    def identity(self) -> dict[str, Any]:
        """The parameters, and what judged questions quote."""
        return super().identity() | {"quotes": digest(*self.quotes)}

    @property
    def quotes(self) -> tuple[str, ...]:
        """A document that has any of these is held out."""
        return quotes(domain_folder()) if self.judged else ()


@dataclass(frozen=True)
class Drawable:
    """A document that may be held out.

    Attributes:
        doc_id: its id.
        url_id: its address.
        at: where the hash of its bytes puts it, 0 to 1.
        length: characters of its text.
        held: it was held out before.
    """

    doc_id: str
    url_id: str
    at: float
    length: int
    held: bool = False


class Most(NamedTuple):
    """What may be drawn.

    Attributes:
        documents: so many.
        text: characters of all together.
        share: characters of all together, as a part of what there is.
    """

    documents: int
    text: float
    share: float


@dataclass(frozen=True)
class Before:
    """What the runs before chose.

    Attributes:
        split: of what is held out and of its near-duplicates, by the id of the document; of the former by address, too.
        chosen_from: addresses that a run with the same parameters chose from, and near-duplicates of what was there.
        stays: the parameters are the same: nothing moves.
    """

    split: Mapping[str, str]
    chosen_from: Collection[str] = ()
    stays: bool = False

    @classmethod
    def read(cls, run: Run, params: HoldOutDocumentsParams) -> Before:
        """What led to ``run``."""
        if run.previous is None:
            return cls({})
        stays = next(run.requests()) == params.identity()
        rows = [row for part in run.previous.parts() for row in part.to_pylist()]
        if not stays:
            return cls({row["doc_id"]: row["split"] for row in rows})
        documents = run.read_before("documents")
        read = [part for version in documents for part in version.parts(["doc_id", "url_id"])]
        address = {row["doc_id"]: row["url_id"] for part in read for row in part.to_pylist()}
        split = {row["doc_id"]: row["split"] for row in rows}
        original = {doc_id: of for version in documents for doc_id, of in _repeats(version)}
        split |= {doc_id: split[of] for doc_id, of in original.items() if of in split}
        split |= {at: row["split"] for row in rows if (at := row["url_id"] or address.get(row["doc_id"]))}
        return cls(split, {*address.values(), *original}, stays)

    def of(self, document: Drawable, new: str) -> tuple[str, bool]:
        """The split that a document may be drawn for, and whether it was in it before; ``new`` is by its bytes."""
        held = self.split.get(document.doc_id) or self.split.get(document.url_id)
        if not self.stays:
            return new, held is not None
        trained = document.url_id in self.chosen_from or document.doc_id in self.chosen_from
        return held or ("" if trained else new), held is not None


def _repeats(documents: Version) -> Iterator[tuple[str, str]]:
    """Each document that ``documents`` lacks as a near-duplicate, and the one that it was of."""
    for ref in map(Ref.parse, documents.manifest.inputs.get("duplicates", [])):
        if whole(documents.store, ref):
            for part in Version.open(documents.store, ref).parts(["doc_id", "representative_id"]):
                pairs = zip(part["doc_id"].to_pylist(), part["representative_id"].to_pylist(), strict=True)
                yield from ((doc_id, of) for doc_id, of in pairs if doc_id != of)


@step(reads={"documents": DOCUMENTS}, writes=HELD_OUT, kind="reduce", version="3", grows=True)
def hold_out_documents(inputs: Inputs, params: HoldOutDocumentsParams, run: Run) -> Iterator[pa.Table]:
    """Name the documents that are for tests or for choosing checkpoints; all others are trained on.

    A document that a judged question quotes (:class:`Quotes`) is for tests, so that no passage of another can answer
    that question. Of the rest the bytes draw. As long as the parameters are the same, no refresh moves a document, also
    where its address has other bytes: what was held out stays so, however few remain to train on, what was trained on
    stays so, and new addresses alone are drawn. One that was left out as a near-duplicate, and stands now that the
    other changed or is gone, is on the side of the other. None is drawn with which more documents than the limit, or
    text for more queries than theirs, would be held out, and no new one with which more than the fraction of all text
    would.
    Near-duplicates of a held-out document are gone before (:func:`near_duplicate_documents`).
    """
    quoted, length = Quotes(params.quotes), 0
    documents: list[Drawable] = []
    judged: list[Drawable] = []
    for part in inputs["documents"].parts(["doc_id", "url_id", "content_sha256", "text"]):
        for row in part.to_pylist():
            length += len(row["text"])
            at = unit_hash(params.split_salt, row["content_sha256"])
            document = Drawable(row["doc_id"], row["url_id"], at, len(row["text"]))
            (judged if quoted.found_in(row["text"]) else documents).append(document)
    before = Before.read(run, params)
    may_be: dict[str, list[Drawable]] = {"test": [], "dev": [], "": []}
    for document in documents:
        split, held = before.of(document, _split_at(document.at, params))
        may_be[split].append(replace(document, held=held))
    test = Most(params.test_documents, params.test_queries * _CHARACTERS_A_QUERY, params.test_fraction * length)
    dev = Most(params.dev_documents, params.dev_queries * _CHARACTERS_A_QUERY, params.dev_fraction * length)
    drawn = {split: draw(may_be[split], most, before.stays) for split, most in (("test", test), ("dev", dev))}
    found = [(document.doc_id, "test", "judged", document.url_id) for document in judged]
    found += [(each.doc_id, split, "drawn", each.url_id) for split, chosen in drawn.items() for each in chosen]
    for split in ("test", "dev"):
        run.count(f"documents_{split}", sum(row[1] == split for row in found))
    run.count("documents_judged", len(judged))
    rows = [dict(zip(HELD_OUT.arrow.names, row, strict=True)) for row in sorted(found)]
    yield from difference(run, HELD_OUT, rows, part_rows=max(1, len(rows)))


def _split_at(at: float, params: HoldOutDocumentsParams) -> str:
    """The split whose share of 0 to 1 holds ``at``; none where that is trained on."""
    if at < params.test_fraction:
        return "test"
    return "dev" if at < params.test_fraction + params.dev_fraction else ""


def draw(documents: Iterable[Drawable], most: Most, stays: bool) -> list[Drawable]:
    """Those of ``documents`` that fit, the ones that were held out before first, then by their hash.

    With ``stays`` the limits bind new ones alone: else a document that was held out would be trained on as soon as it
    or another has more text. The share of the text always does: others may have been withdrawn.
    """
    found: list[Drawable] = []
    text = 0
    for document in sorted(documents, key=lambda document: (not document.held, document.at)):
        limit = most.text if document.held else min(most.text, most.share)
        fits = len(found) < most.documents and text + document.length <= limit
        if fits or (document.held and stays):
            found.append(document)
            text += document.length
    return found
