"""Which documents no model is trained on: those that judged questions quote, and as many more as a test needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.growth import difference
from pipeline_tasks.core.ids import digest, unit_hash
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import GrowthParams, step, tuning
from pipeline_tasks.corpus.split_before import NAMES, Before
from pipeline_tasks.datasets import DOCUMENTS, HELD_OUT
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.questions import quotes
from pipeline_tasks.domains.quotes import UNSPACED, Quotes

_CHARACTERS_A_QUERY = 1_000
"""A passage of 255 tokens is about as long, and gives one query."""


class HoldOutDocumentsParams(GrowthParams):
    """How much is held out, and for what."""

    test_fraction: float = Field(0.25, ge=0, lt=1, description="test split: largest fraction of documents, and of text")
    test_documents: int = Field(20, ge=0, description="test split: documents at most, besides judged ones")
    test_queries: int = Field(2000, ge=0, description="test split: queries at most, at about one a passage")
    dev_fraction: float = Field(
        0.15, ge=0, lt=1, description="dev split (checkpoint selection): largest fraction of documents, and of text"
    )
    dev_documents: int = Field(10, ge=0, description="dev split: documents at most")
    dev_queries: int = Field(1000, ge=0, description="dev split: queries at most, at about one a passage")
    judged: bool = Field(True, description="hold out every document that the domain's judged questions quote, too")
    split_salt: str = Field("split", description="seed of the split: another value draws other documents")
    max_withdrawn: float = tuning(1.0, ge=0, le=1, description="largest share that may be held out no more; 1: all")

    def identity(self) -> dict[str, Any]:
        """The parameters, what judged questions quote, and which way quotes without blanks are looked for."""
        ways = {"words": 2} if any(map(UNSPACED.search, self.quotes)) else {}
        return super().identity() | {"quotes": digest(*self.quotes)} | ways

    @cached_property
    def quotes(self) -> tuple[str, ...]:
        """A document that has any of these is held out; read once."""
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


@step(reads={"documents": DOCUMENTS}, writes=HELD_OUT, kind="reduce", version="3", grows=True)
def hold_out_documents(inputs: Inputs, params: HoldOutDocumentsParams, run: Run) -> Iterator[pa.Table]:
    """Name the documents that are for tests or for choosing checkpoints; all others are trained on.

    A document that a judged question quotes (:class:`Quotes`) is for tests, so that no passage of another can answer
    that question. Of the rest the bytes draw. As long as the parameters are the same, no refresh moves a document, also
    where its address has other bytes, its bytes another address, or it was away for a while: what was held out stays
    so, however few remain to train on, what was trained on stays so, and new bytes at new addresses alone are drawn.
    One that was left out as a near-duplicate, and stands now that the other changed or is gone, is on the side of the
    other. None is drawn with which more documents than the limit, or text for more queries than theirs, would be held
    out, and no new one with which more than the fraction of all text would.
    Near-duplicates of a held-out document are gone before (:func:`near_duplicate_documents`).
    """
    quoted, before, length = Quotes(params.quotes), Before.read(run, params.identity()), 0
    judged: list[Drawable] = []
    may_be: dict[str, list[Drawable]] = {"test": [], "dev": [], "": []}
    for part in inputs["documents"].parts([*NAMES, "text"]):
        for row in part.to_pylist():
            length += len(row["text"])
            at, side = unit_hash(params.split_salt, row["content_sha256"]), before.of(row)
            document = Drawable(row["doc_id"], row["url_id"], at, len(row["text"]), held=bool(side))
            split = side if before.stays and side is not None else _split_at(at, params)
            (judged if quoted.found_in(row["text"]) else may_be[split]).append(document)
    test = Most(params.test_documents, params.test_queries * _CHARACTERS_A_QUERY, params.test_fraction * length)
    dev = Most(params.dev_documents, params.dev_queries * _CHARACTERS_A_QUERY, params.dev_fraction * length)
    drawn = {split: draw(may_be[split], most, before.stays) for split, most in (("test", test), ("dev", dev))}
    found = [(document.doc_id, "test", "judged", document.url_id) for document in judged]
    found += [(each.doc_id, split, "drawn", each.url_id) for split, chosen in drawn.items() for each in chosen]
    for split in ("test", "dev"):
        run.count(f"documents_{split}", sum(row[1] == split for row in found))
    run.count("documents_judged", len(judged))
    before.remember(run, inputs["documents"], {doc_id: split for doc_id, split, *_ in found})
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
