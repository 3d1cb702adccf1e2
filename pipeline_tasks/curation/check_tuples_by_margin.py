"""Tuples whose questions reference models tell apart: a check that needs no LLM, under a name of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import Secret
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import REFERENCE_MODELS, identity, is_served, licences
from pipeline_tasks.retrieval.embed_passages import EncodeParams, counting_costs
from pipeline_tasks.retrieval.encoder import Encoder, Progress
from pipeline_tasks.texts.sentences import sentences

_ASKED = (("instruction", "query"), ("poisoned_instruction", "query"), ("instruction", "poisoned_query"))
_ANSWERS = ("positive", "instruction_passage", "query_passage")
Unit = Literal["passage", "sentence"]
_PARTS = count()
"""Of this process: every other one begins with the models that the one before ended with, which are still loaded."""

TIES = 0.001
"""Cosines below which two passages are equally near: the same sentence is that but for the last digits."""


class CheckTuplesByMarginParams(EncodeParams):
    """Which reference models, and how sure one has to be."""

    further: tuple[str, ...] = Field(
        REFERENCE_MODELS[1:], description="encoders besides `model`; each question takes the largest margin of all"
    )
    by: Unit = Field(
        "sentence", description="what a question is compared with: whole passages, or the nearest sentence of each"
    )
    margin: float = Field(TIES, ge=-2, le=2, description="cosine margin by which the right passage must be the nearest")

    @model_validator(mode="after")
    def _once_each(self) -> CheckTuplesByMarginParams:
        if len({self.model, *self.further}) <= len(self.further):
            raise ValueError(f"further={list(self.further)} besides model={self.model!r}: name each model once")
        return self

    def identity(self) -> dict[str, Any]:
        """The parameters, what the weights of every model are, and how the vectors of all are computed."""
        of_all = self.arithmetic_of(self.model, *self.further)
        return super().identity() | of_all | {"further": [identity(name) for name in self.further]}

    def licences(self) -> dict[str, str]:
        """Those of all models' weights."""
        return licences(self.model, *self.further)

    def secrets(self, declared: tuple[Secret, ...]) -> tuple[Secret, ...]:
        """Models that all run here want no key."""
        return declared if any(is_served(get(name)) for name in (self.model, *self.further)) else ()

    def each(self, *, backwards: bool = False) -> Iterator[EncodeParams]:
        """The same parameters for one model after the other."""
        for name in (self.model, *self.further)[:: -1 if backwards else 1]:
            yield self.model_copy(update={"model": name})


@step(
    reads={"tuples": From(TUPLES, "tuples/poisoned")},
    writes=TUPLES,
    kind="map",
    dataset="tuples/by-margin",
    version="4",
    image="gpu",
    pool="gpu",
    memory_gib=4,
    secrets=("embeddings",),
)
def check_tuples_by_margin(rows: pa.Table, params: CheckTuplesByMarginParams, run: Run) -> pa.Table:
    """Keep the tuples of each of whose questions a model finds the passage nearest among the three, by a margin.

    By the nearest sentence of each, a passage that says what another says is as near as that, whatever else it says, to
    every model; while that one of two passages is much nearer to the bare query differs from model to model. So a
    question counts as told apart where one of the models does it. They know what a model that does not reason knows:
    what is kept is easy already. Reasons of rejects: ``not_poison`` (no model finds the positive nearer to the original
    instruction and query than both passages that were written for poison), ``ambiguous`` (the same of another
    question); the detail has the three largest margins.

    Raises:
        InputError: a text is blank, or the model gives a vector that is none.
        TransientError: an endpoint stayed busy; what it gave so far is kept.
    """
    if rows.num_rows == 0:
        return TUPLES.table()
    n_texts = rows.num_rows * len(_ASKED) + len({piece for passage in pieces_of(rows, params.by) for piece in passage})
    of_models: list[np.ndarray] = []
    with run.progress(n_texts * (1 + len(params.further)), "texts") as meter:
        for of_one in params.each(backwards=bool(next(_PARTS) % 2)):
            encoder = of_one.open(rows["positive"].to_pylist(), run)
            with counting_costs(run, encoder, n_texts):
                of_models.append(margins_of(rows, encoder, params.by, meter.advance))
    found = np.max(of_models, axis=0)
    kept = (found > params.margin).all(axis=1)
    for query_id, of_tuple in zip(rows["query_id"].filter(pa.array(~kept)).to_pylist(), found[~kept], strict=True):
        shown = ", ".join(f"{name}: {value:.3f}" for name, value in zip(_ANSWERS, of_tuple, strict=True))
        run.reject(query_id, "not_poison" if of_tuple[0] <= params.margin else "ambiguous", shown)
    return rows.filter(pa.array(kept))


def margins_of(
    rows: pa.Table, encoder: Encoder, by: Unit = "passage", progress: Progress = lambda n_done: None
) -> np.ndarray:
    """By how much a model finds each question's passage nearer than the tuple's two others.

    Shapes: returns [n, 3], in the order of the positive, the passage of the instruction and that of the query.
    """
    texts = {name: rows[name].to_pylist() for name in ("intent", *(n for asked in _ASKED for n in asked))}
    queries = [
        encoder.encode_queries(texts[query], texts["intent"], texts[instruction], progress=progress)
        for instruction, query in _ASKED
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
