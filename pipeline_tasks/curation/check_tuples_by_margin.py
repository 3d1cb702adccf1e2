"""Tuples whose questions a reference model tells apart: a check that needs no LLM, under a name of its own."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.retrieval.embed_passages import EncodeParams, noted
from pipeline_tasks.retrieval.encoder import Encoder, Progress
from pipeline_tasks.texts.sentences import sentences

_ASKED = (("instruction", "query"), ("poisoned_instruction", "query"), ("instruction", "poisoned_query"))
_ANSWERS = ("positive", "instruction_passage", "query_passage")
Unit = Literal["passage", "sentence"]


class CheckTuplesByMarginParams(EncodeParams):
    """Which reference model, and how sure it has to be."""

    by: Unit = Field(
        "sentence", description="what a question is compared with: passages, or the nearest sentence of each"
    )
    margin: float = Field(0.0, ge=-2, le=2, description="cosines by which the right passage has to be the nearest one")


@step(
    reads={"tuples": From(TUPLES, "tuples/poisoned")},
    writes=TUPLES,
    kind="map",
    dataset="tuples/by-margin",
    version="2",
    image="gpu",
    pool="gpu",
    memory_gib=4,
    secrets=("embeddings",),
)
def check_tuples_by_margin(rows: pa.Table, params: CheckTuplesByMarginParams, run: Run) -> pa.Table:
    """Keep the tuples of which a model finds each question's passage nearest among the three, by a margin.

    By the nearest sentence of each, a passage that says what another says is as near as that, whatever else it says. It
    knows what a model that does not reason knows: it keeps what is easy already. Reasons of rejects: ``not_poison``
    (a passage that was written for poison is nearer to the original instruction and query than the positive),
    ``ambiguous`` (any other margin is too small); the detail has the three margins.

    Raises:
        InputError: a text is blank, or the model gives a vector that is none.
        TransientError: an endpoint stayed busy; what it gave so far is kept.
    """
    if rows.num_rows == 0:
        return TUPLES.table()
    encoder = params.open(rows["positive"].to_pylist(), run)
    n_texts = rows.num_rows * len(_ASKED) + len({piece for passage in pieces_of(rows, params.by) for piece in passage})
    with run.progress(n_texts, "texts") as meter, noted(run, encoder, n_texts):
        found = margins_of(rows, encoder, params.by, meter.advance)
    kept = (found > params.margin).all(axis=1)
    for query_id, of_tuple in zip(rows["query_id"].filter(pa.array(~kept)).to_pylist(), found[~kept], strict=True):
        shown = ", ".join(f"{name}: {value:.3f}" for name, value in zip(_ANSWERS, of_tuple, strict=True))
        run.reject(query_id, "not_poison" if of_tuple[0] <= 0 else "ambiguous", shown)
    return rows.filter(pa.array(kept))


def margins_of(
    rows: pa.Table, encoder: Encoder, by: Unit = "passage", progress: Progress = lambda n_done: None
) -> np.ndarray:
    """By how much a model finds each question's passage nearer than the tuple's two others.

    Shapes: returns [n, 3], in the order of the positive, the passage of the instruction and that of the query.
    """
    texts = {name: rows[name].to_pylist() for name in ("intent", *(n for asked in _ASKED for n in asked))}
    queries = [
        encoder.encode_queries(texts[query], texts["intent"], texts[told], progress=progress) for told, query in _ASKED
    ]
    pieces = pieces_of(rows, by)
    distinct = list(dict.fromkeys(piece for of_passage in pieces for piece in of_passage))
    vectors, place = encoder.encode_passages(distinct, progress=progress), {p: at for at, p in enumerate(distinct)}
    found = np.empty((len(rows), len(_ASKED), len(_ANSWERS)), np.float32)
    for at, of_passage in enumerate(pieces):
        row, passage = divmod(at, len(_ANSWERS))
        own = vectors[[place[piece] for piece in of_passage]]
        found[row, :, passage] = [(own @ query[row]).max() for query in queries]
    return margins(found)


def pieces_of(rows: pa.Table, by: Unit) -> list[list[str]]:
    """Of every passage, those of a tuple after each other, what questions are compared with."""
    passages = [text for row in zip(*(rows[name].to_pylist() for name in _ANSWERS), strict=True) for text in row]
    return [(sentences(text) or [text]) if by == "sentence" else [text] for text in passages]


def margins(scores: np.ndarray) -> np.ndarray:
    """By how much each question is nearer to its own passage than to the nearest of the others.

    Shapes: scores [n, k, k], questions by passages, the i-th passage for the i-th question; returns [n, k].
    """
    own = np.eye(scores.shape[1], dtype=bool)
    return scores[:, own] - np.where(own, -np.inf, scores).max(axis=2)
