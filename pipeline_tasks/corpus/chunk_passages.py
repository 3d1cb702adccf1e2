"""Passages of fewer than 256 tokens, cut at sentence ends; every character of a document is in exactly one of them."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import short_id, unit_hash
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.datasets import DOCUMENTS, PASSAGES
from pipeline_tasks.models.use import load_tokenizer

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])|\n\s*\n|\n(?=[-*\u2022])")
_WORD_GAP = re.compile(r"\s+")


class ChunkPassagesParams(StepParams):
    """Size of passages, and which documents are held out."""

    max_tokens: int = Field(255, ge=16, description="most tokens in a passage; the paper says fewer than 256")
    min_tokens: int = Field(24, ge=0, description="shorter passages are rejects")
    tokenizer: str = Field("all-minilm-l6-v2", description="model whose tokenizer counts")
    test_fraction: float = Field(0.25, ge=0, lt=1, description="share of documents held out for evaluation")
    dev_fraction: float = Field(0.15, ge=0, lt=1, description="share of documents that choose checkpoints")
    split_salt: str = Field("split", description="another value draws another split")


@dataclass(frozen=True)
class Span:
    """Characters ``start`` to ``end`` of a text and their number of tokens."""

    start: int
    end: int
    n_tokens: int


@step(reads={"documents": DOCUMENTS}, writes=PASSAGES, kind="map", dataset="chunks")
def chunk_passages(rows: pa.Table, params: ChunkPassagesParams, run: Run) -> Iterator[pa.Table]:
    """Cut documents into passages that know their page, their characters and their split.

    A document is on one side of the split as a whole; which one depends on its bytes alone, so that neither a refresh
    nor a second address moves it. Passages of fewer than ``min_tokens`` tokens are rejects ``too_few_tokens``.
    """
    tokenizer = load_tokenizer(params.tokenizer)
    for document in rows.to_pylist():
        text = document["text"]
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        split = split_of(document["content_sha256"], params)
        passages = []
        for span in pack(text, [start for start, _ in offsets], params.max_tokens):
            passage_id = short_id(document["doc_id"], span.start, span.end)
            if span.n_tokens < params.min_tokens:
                run.reject(passage_id, "too_few_tokens", f"{span.n_tokens} tokens in {document['url']}")
                continue
            page = sum(1 for start in document["page_starts"] if start <= span.start)
            passages.append(
                {
                    "passage_id": passage_id,
                    "doc_id": document["doc_id"],
                    "url": document["url"],
                    "title": document["title"],
                    "page": max(1, page),
                    "start_char": span.start,
                    "end_char": span.end,
                    "text": text[span.start : span.end],
                    "n_tokens": span.n_tokens,
                    "split": split,
                }
            )
        run.count("tokens", sum(p["n_tokens"] for p in passages))
        yield PASSAGES.table(passages)


def split_of(content_sha256: str, params: ChunkPassagesParams) -> str:
    """``train``, ``dev`` or ``test`` for a document."""
    at = unit_hash(params.split_salt, content_sha256)
    if at < params.test_fraction:
        return "test"
    return "dev" if at < params.test_fraction + params.dev_fraction else "train"


def pack(text: str, token_starts: list[int], max_tokens: int) -> list[Span]:
    """Fill passages with whole sentences up to ``max_tokens``; a longer sentence is cut between words.

    Passages are of about even size: n tokens need ceil(n / max_tokens) of them, and each is filled to a little over its
    share, so that the last one is not a scrap where sentences allow it.

    Args:
        text: the document.
        token_starts: first character of each token, ascending.
        max_tokens: most tokens in a passage.
    """

    def tokens(start: int, end: int) -> int:
        return bisect.bisect_left(token_starts, end) - bisect.bisect_left(token_starts, start)

    n_passages = -(-len(token_starts) // max_tokens)
    share = min(max_tokens, -(-len(token_starts) // max(1, n_passages)) + max_tokens // 8)
    pieces = [piece for s in _sentences(text) for piece in _short_enough(text, s, tokens, max_tokens)]
    spans: list[Span] = []
    for start, end in pieces:
        last = spans[-1] if spans else None
        if last and tokens(last.start, end) <= share:
            spans[-1] = Span(last.start, end, tokens(last.start, end))
        else:
            spans.append(Span(start, end, tokens(start, end)))
    return [trimmed for span in spans if (trimmed := _trim(text, span)).end > trimmed.start]


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield start, match.end()
        start = match.end()
    if start < len(text):
        yield start, len(text)


def _short_enough(text: str, span: tuple[int, int], tokens, max_tokens: int) -> Iterator[tuple[int, int]]:  # noqa: ANN001
    start, end = span
    if tokens(start, end) <= max_tokens:
        yield span
        return
    cut, reach = start, start
    for gap in [*(m.end() for m in _WORD_GAP.finditer(text, start, end)), end]:
        if tokens(cut, gap) > max_tokens and reach > cut:
            yield from _hard_cut(cut, reach, tokens, max_tokens)
            cut = reach
        reach = gap
    yield from _hard_cut(cut, end, tokens, max_tokens)


def _hard_cut(start: int, end: int, tokens, max_tokens: int) -> Iterator[tuple[int, int]]:  # noqa: ANN001
    while tokens(start, end) > max_tokens:
        size = end - start
        while size > 1 and tokens(start, start + size) > max_tokens:
            size //= 2
        yield start, start + size
        start += size
    yield start, end


def _trim(text: str, span: Span) -> Span:
    inner = text[span.start : span.end]
    start = span.start + len(inner) - len(inner.lstrip())
    return Span(start, start + len(inner.strip()), span.n_tokens)
