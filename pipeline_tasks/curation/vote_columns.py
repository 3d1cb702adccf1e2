"""Votes as columns: for the rows of ``labelled``, and in words for those that were refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import list_array, lists_at
from pipeline_tasks.curation.agreement import NOBODY, Votes, placed
from pipeline_tasks.curation.query_block import QueryBlock
from pipeline_tasks.datasets import LABELLED


def vote_lists(
    queries: QueryBlock, votes: Votes, rows: np.ndarray, positive: np.ndarray, own: np.ndarray, ids: pa.Array
) -> pa.ListArray:
    """The votes on some queries: each model's top N, and the rank and score that it gives the positive.

    Shapes: positive and own [q], numbers of passages; ids of all of them.
    """
    mine = Votes(*(array[rows] for array in votes))
    ranks, scores = placed(mine, positive[rows], own[rows])
    seated = queries.panel[rows] != NOBODY
    ranks, scores = ranks[seated], scores[seated]
    columns = {
        "model": pa.array(queries.models, pa.string()).take(pa.array(queries.panel[rows][seated])),
        "passage_ids": lists_at(mine.codes[seated], ids),
        "positive_rank": pa.array(ranks, mask=ranks == 0),
        "positive_score": pa.array(scores, mask=np.isnan(scores)),
    }
    kind = LABELLED.arrow.field("votes").type
    flat = pa.StructArray.from_arrays([columns[field.name] for field in kind.value_type], fields=list(kind.value_type))
    return list_array(seated.sum(axis=1), flat)


def tops(queries: QueryBlock, votes: Votes, rows: np.ndarray, ids: pa.Array) -> pa.Array:
    """What each model put on top, in words: ``one: a b; two: c a``."""
    said = []
    for seat in range(queries.panel.shape[1]):
        model = queries.panel[rows, seat]
        names = pa.array(queries.models, pa.string()).take(pa.array(model, mask=model == NOBODY))
        passages = pc.binary_join(lists_at(votes.codes[rows, seat], ids), " ")
        said.append(pc.binary_join_element_wise(names, passages, ": "))
    return pc.binary_join_element_wise(*said, "; ", null_handling="skip")
