"""Embeddings of queries and of the positives that the LLM wrote for them, once per (model, part)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import field_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.earlier import earlier_part
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, added, step
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PAIR_EMBEDDINGS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import check_known
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.corpora import by_corpus
from pipeline_tasks.retrieval.embed_params import is_asked
from pipeline_tasks.retrieval.embed_passages import EncodeParams, counting_costs, texts_of
from pipeline_tasks.retrieval.encoder import Encoder, Progress
from pipeline_tasks.retrieval.open_encoder import instructions_of


class AskParams(EncodeParams):
    """Which encoder, how exact, and what an instructed model is told to look for."""

    def identity(self) -> dict[str, Any]:
        """The parameters and the instructions, where the model is given any."""
        instructions = instructions_of(get(self.model))
        return super().identity() | ({"instructions": instructions} if instructions else {})


class EmbedPairsParams(AskParams):
    """And of which intents."""

    intents: tuple[str, ...] = added((), description="intents whose queries are encoded; empty: all")
    of_one_intent: dict[str, str] = added(
        {}, description="origin -> the intent of all its pairs: where that is not in intents=, none is encoded"
    )

    @field_validator("intents")
    @classmethod
    def _in_one_order(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(set(names)))

    @field_validator("intents")
    @classmethod
    def _check_intents(cls, intents: tuple[str, ...]) -> tuple[str, ...]:
        if intents:
            check_known(domain_folder(), *intents)
        return intents


@step(
    reads={"pairs": From(INSTRUCTED_PAIRS, "mtp")},
    writes=PAIR_EMBEDDINGS,
    kind="map",
    dataset="query_embeddings/{model}",
    version="2",
    image="gpu",
    pool="gpu",
    memory_gib=4,
    secrets=("embeddings",),
)
def embed_pairs(rows: pa.Table, params: EmbedPairsParams, run: Run) -> pa.Table:
    """Encode every query as the model wants it asked, with its own instruction if any, and its positive as a passage.

    With ``intents`` a query of another one gets no vector, and no ranking; its positive does, which other queries are
    ranked among. Where none are, as all pairs of an origin are ``of_one_intent``, they get no rows. A part of which the
    latest version, by other such parameters, encoded the same texts is taken over.

    Raises:
        InputError: a text is blank, the model gives a vector that is none, or a pair has not the intent of its origin.
        TransientError: an endpoint stayed busy; what it gave so far is kept.
    """
    n_pairs, rows = rows.num_rows, _needed(rows, params)
    if left_out := n_pairs - rows.num_rows:
        run.count("pairs_left_out", left_out)
    if rows.num_rows == 0:
        return PAIR_EMBEDDINGS.table()
    positives = texts_of(rows, "query_id", "positive")
    asked = is_asked(rows["intent"], params.intents)
    before = earlier_part(run, "intents", "of_one_intent")
    if before is not None and _are_of(before, rows, asked):
        return before
    encoder = params.open(positives, run)
    n_texts = int(asked.sum()) + rows.num_rows
    with run.progress(n_texts, "texts") as meter, counting_costs(run, encoder, n_texts):
        of_queries = params.stored_vectors(encoded_queries(rows.filter(pa.array(asked)), encoder, meter.advance))
        of_positives = params.stored_vectors(encoder.encode_passages(positives, progress=meter.advance))
    if not asked.all():
        of_queries = of_queries.take(pa.array(np.cumsum(asked) - 1, mask=~asked))
    ids = rows.select(["query_id", "passage_id", "doc_id", "intent", "positive_id", "origin"])
    return ids.append_column("query_embedding", of_queries).append_column("positive_embedding", of_positives)


def _needed(rows: pa.Table, params: EmbedPairsParams) -> pa.Table:
    """Without the pairs of a corpus in which no query is asked."""
    unasked = {name: intent for name, intent in params.of_one_intent.items() if intent not in params.intents}
    if not params.intents or not unasked or not rows.num_rows:
        return rows
    needed = np.ones(rows.num_rows, bool)
    for corpus, of_it in by_corpus(rows):
        if corpus not in unasked:
            continue
        if others := sorted(set(rows["intent"].take(pa.array(of_it)).to_pylist()) - {unasked[corpus]}):
            raise InputError(
                f"of_one_intent says that pairs of {corpus!r} are of {unasked[corpus]!r}, and some, which are ranked "
                f"among the positives of all, are of {others[0]!r}: leave it out, or give these pairs another origin"
            )
        needed[of_it] = False
    return rows.filter(pa.array(needed))


def _are_of(vectors: pa.Table, rows: pa.Table, asked: np.ndarray) -> bool:
    """Whether the vectors, which were made of the same part, are those of these rows and of the queries asked."""
    same_rows = vectors["query_id"].equals(rows["query_id"])
    return same_rows and np.array_equal(vectors["query_embedding"].is_valid().to_numpy(), asked)


def encoded_queries(rows: pa.Table, encoder: Encoder, progress: Progress) -> np.ndarray:
    """Vectors of the queries of pairs, each with its own instruction if it has one, else with that of its intent.

    Shapes: returns [n, d].
    """
    if not len(rows):
        return np.empty((0, encoder.dim), np.float32)
    columns = [rows[name].to_pylist() for name in ("intent", "instruction") if name in rows.column_names]
    return encoder.encode_queries(texts_of(rows, "query_id", "query"), *columns, progress=progress)
