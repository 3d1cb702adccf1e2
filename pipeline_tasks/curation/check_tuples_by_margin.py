"""Tuples whose questions a reference model tells apart: a check that needs no LLM, under a name of its own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.retrieval.embed_passages import EncodeParams, noted

_ASKED = (("instruction", "query"), ("poisoned_instruction", "query"), ("instruction", "poisoned_query"))
_ANSWERS = ("positive", "instruction_passage", "query_passage")


class CheckTuplesByMarginParams(EncodeParams):
    """Which reference model, and how sure it has to be."""

    margin: float = Field(0.0, ge=-2, le=2, description="cosines by which the right passage has to be the nearest one")


@step(
    reads={"tuples": From(TUPLES, "tuples/poisoned")},
    writes=TUPLES,
    kind="map",
    dataset="tuples/by-margin",
    image="gpu",
    pool="gpu",
    memory_gib=4,
    secrets=("embeddings",),
)
def check_tuples_by_margin(rows: pa.Table, params: CheckTuplesByMarginParams, run: Run) -> pa.Table:
    """Keep the tuples of which a model finds each question's passage nearest among the three, by a margin.

    It knows what a model that does not reason knows: it keeps what is easy already. Reasons of rejects: ``not_poison``
    (a passage that was written for poison is nearer to the original instruction and query than the positive),
    ``ambiguous`` (any other margin is too small); the detail has the three margins.

    Raises:
        InputError: a text is blank, or the model gives a vector that is none.
        TransientError: an endpoint stayed busy; what it gave so far is kept.
    """
    if rows.num_rows == 0:
        return TUPLES.table()
    texts = {name: rows[name].to_pylist() for name in ("intent", *_ANSWERS, *(n for asked in _ASKED for n in asked))}
    encoder = params.open(texts["positive"], run)
    n_texts = rows.num_rows * (len(_ASKED) + len(_ANSWERS))
    with run.progress(n_texts, "texts") as meter, noted(run, encoder, n_texts):
        passages = [encoder.encode_passages(texts[name], progress=meter.advance) for name in _ANSWERS]
        queries = [
            encoder.encode_queries(texts[query], texts["intent"], texts[told], progress=meter.advance)
            for told, query in _ASKED
        ]
    found = margins(np.stack(queries, axis=1), np.stack(passages, axis=1))
    kept = (found >= params.margin).all(axis=1)
    for query_id, of_tuple in zip(rows["query_id"].filter(pa.array(~kept)).to_pylist(), found[~kept], strict=True):
        shown = ", ".join(f"{name}: {value:.3f}" for name, value in zip(_ANSWERS, of_tuple, strict=True))
        run.reject(query_id, "not_poison" if of_tuple[0] < 0 else "ambiguous", shown)
    return rows.filter(pa.array(kept))


def margins(queries: np.ndarray, passages: np.ndarray) -> np.ndarray:
    """By how much each question is nearer to its own passage than to the nearest of the others.

    Shapes: queries and passages [n, k, d], L2-normalised, the i-th passage for the i-th question; returns [n, k].
    """
    scores = np.einsum("nqd,npd->nqp", queries, passages)
    own = np.eye(scores.shape[1], dtype=bool)
    return scores[:, own] - np.where(own, -np.inf, scores).max(axis=2)
