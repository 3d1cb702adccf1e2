"""Passages of fewer than 256 tokens, cut where the meaning drifts; every character of a document is in one of them."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.earlier import earlier_part_and_rejects
from pipeline_tasks.core.execution.growth_requests import requests
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.corpus.chunking.drift import token_table
from pipeline_tasks.corpus.chunking.passages import Chunker, Passage
from pipeline_tasks.datasets import DOCUMENTS, HELD_OUT, PASSAGES
from pipeline_tasks.models.use import folder, identity, load_tokenizer

_MOST_UNKNOWN = 0.5


class ChunkPassagesParams(StepParams):
    """Where to cut, and size of passages."""

    mode: Literal["semantic", "structure"] = Field(
        "semantic",
        description="structure: cut by headings, lists, paragraphs, sentences; semantic: also where embeddings drift",
    )
    max_tokens: int = Field(255, ge=16, description="longest passage, in tokens; the paper says fewer than 256")
    min_tokens: int = Field(
        24, ge=0, description="shortest passage, in tokens; shorter ones are merged into a neighbour, else rejected"
    )
    tokenizer: str = Field(
        "all-minilm-l6-v2",
        description="model whose tokenizer counts tokens and whose embeddings show where the meaning drifts",
    )

    @model_validator(mode="after")
    def _fits(self) -> ChunkPassagesParams:
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens={self.min_tokens} is more than max_tokens={self.max_tokens}: no passage would be kept; "
                "lower min_tokens or raise max_tokens"
            )
        return self

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the weights of the tokenizer's model are."""
        return super().identity() | {"weights": identity(self.tokenizer)}


@step(reads={"documents": DOCUMENTS, "held_out": HELD_OUT}, writes=PASSAGES, kind="map", dataset="chunks", version="5")
def chunk_passages(rows: pa.Table, params: ChunkPassagesParams, run: Run) -> Iterator[pa.Table]:
    """Cut documents into passages that know their page, their characters and their split.

    A document is on one side of the split as a whole, the one that ``hold_out_documents`` names. Where others are held
    out than in the latest version, its passages are taken over with the splits of today. Rejects are told by
    their document and go with it; reasons:
    ``too_few_tokens`` (fewer than ``min_tokens``, and joined to a neighbour it would be too long), ``too_many_tokens``
    (one character that alone is over the limit), ``unknown_tokens`` (a document most of whose letters the tokenizer
    does not know).

    Raises:
        InputError: ``held_out`` is of other documents.
    """
    _check(run.inputs["held_out"], run.inputs["documents"].manifest.ref)
    before = _cut_before(run)
    held_out = run.inputs["held_out"].parts(["doc_id", "split"])  # none at all where nothing is held out
    split_of = {row["doc_id"]: row["split"] for part in held_out for row in part.to_pylist()}
    with run.progress(rows.num_rows, "documents") as meter:
        for document in rows.to_pylist():
            doc_id = document["doc_id"]
            split = split_of.get(doc_id, "train")
            if doc_id in before:
                run.count("documents_taken_over")
                passages, refused = before[doc_id]
                kept = [row | {"split": split} for row in passages]
                for reject in refused:
                    run.reject(**reject)
            else:
                kept = _cut(document, split, params, run)
            run.count("tokens", sum(row["n_tokens"] for row in kept))
            meter.advance()
            yield PASSAGES.table(kept)


def _cut(document: dict[str, Any], split: str, params: ChunkPassagesParams, run: Run) -> list[dict[str, Any]]:
    chunker = _chunker(folder(params.tokenizer), params)
    words = chunker.words(document["text"])
    if words.unknown_share > _MOST_UNKNOWN:
        what = f"{document['url']} {words.unknown_share:.0%} of its letters are unknown to the tokenizer of"
        run.reject(document["doc_id"], "unknown_tokens", f"{what} {params.tokenizer}; set another `tokenizer`")
        return []
    found = [_row(document, passage, split) for passage in chunker.passages(words)]
    return [row for row in found if _has_size(row, params, run)]


def _cut_before(run: Run) -> dict[str, tuple[list[dict], list[dict]]]:
    """Document -> passages and rejects that the latest version has of it in this part; no cut depends on a split."""
    found: dict[str, tuple[list[dict], list[dict]]] = defaultdict(lambda: ([], []))
    if before := earlier_part_and_rejects(run):
        passages, refused = before
        for row in passages.to_pylist():
            found[row["doc_id"]][0].append(row)
        for row in refused.to_pylist():
            found[row["row_id"]][1].append(row)
    return found


def _check(held_out: Version, documents: Ref) -> None:
    """Refuse what was held out of other documents, where it is known of which: what it lacks would be trained on."""
    read = [request.inputs.get("documents", []) for request in requests(held_out.store, held_out.manifest)]
    if all(read) and not any(str(documents) in refs for refs in read):
        raise InputError(
            f"{held_out.manifest.ref} is not of {documents}, and a test document that it does not know would be "
            "trained on; run hold_out_documents of these, with the parameters that it had"
        )


@lru_cache(maxsize=1)
def _chunker(path: Path, params: ChunkPassagesParams) -> Chunker:
    """Kept from part to part with the words that it has seen."""
    table = token_table(path) if params.mode == "semantic" else None
    return Chunker(load_tokenizer(params.tokenizer), params.max_tokens, params.min_tokens, table)


def _row(document: dict[str, Any], passage: Passage, split: str) -> dict[str, Any]:
    return {
        "passage_id": short_id(document["doc_id"], passage.start, passage.end),
        "doc_id": document["doc_id"],
        "url": document["url"],
        "title": document["title"],
        "page": max(1, bisect.bisect_right(document["page_starts"], passage.start)),
        "start_char": passage.start,
        "end_char": passage.end,
        "text": document["text"][passage.start : passage.end],
        "n_tokens": passage.n_tokens,
        "split": split,
    }


def _has_size(row: dict[str, Any], params: ChunkPassagesParams, run: Run) -> bool:
    detail = f"{row['n_tokens']} tokens, characters {row['start_char']} to {row['end_char']} of {row['url']}"
    if row["n_tokens"] < max(1, params.min_tokens):
        run.reject(row["doc_id"], "too_few_tokens", detail)
        return False
    if row["n_tokens"] > params.max_tokens:
        run.reject(row["doc_id"], "too_many_tokens", detail)
        return False
    return True
