"""Labelled queries as arrays: positives by number, their cosines, and every passage that is known to answer them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import IdTable
from pipeline_tasks.curation.negative_rules import Asked, Known, groups
from pipeline_tasks.curation.passage_index import PassageIndex, split_numbers

_COLUMNS = ["query_id", "intent", "query", "positive_id", "source_passage_id", "split", "best_model"]


@dataclass(frozen=True)
class Wanted:
    """Queries that want negatives, row by row as in ``labelled``.

    Attributes:
        rows: their text columns.
        query_ids, table: their ids, and numbers by id.
        asked, known: what the compiled rule reads.
        intents, models: names; ``asked.intent`` and ``model`` are places in them.
        model: best model of each query, int32.
        own: whether the positive is the one that the LLM wrote for the query.
    """

    rows: pa.Table
    query_ids: pa.Array
    table: IdTable
    asked: Asked
    known: Known
    intents: list[str]
    models: list[str]
    model: np.ndarray
    own: np.ndarray

    @classmethod
    def read(cls, labelled: Version, pairs: Version, index: PassageIndex) -> Wanted:
        """All labelled queries; what is known of a query holds for every query of the same text.

        Raises:
            InputError: a positive that is neither a passage nor of a pair.
        """
        rows = labelled.table([*_COLUMNS, "votes"])
        asked_pairs = pairs.table(["query_id", "query", "passage_id", "positive_id"])
        positive, source = (index.table.numbers(rows[name]) for name in ("positive_id", "source_passage_id"))
        if (positive < 0).any():
            name = rows["positive_id"][int(np.argmax(positive < 0))]
            raise InputError(f"{labelled.manifest.ref}: positive {name} is no passage here; label the queries again")
        passage, generated = (index.table.numbers(asked_pairs[name]) for name in ("passage_id", "positive_id"))
        codes = [np.concatenate([positive, generated]), np.concatenate([source, passage])]
        by_text = IdTable.of(rows["query"])
        group = by_text.numbers(rows["query"])
        starts, known = groups(np.concatenate([group, by_text.numbers(asked_pairs["query"])]), codes, rows.num_rows)
        intents, models = (rows[name].combine_chunks().dictionary_encode() for name in ("intent", "best_model"))
        asked = Asked(
            positive,
            _positive_scores(rows),
            group,
            split_numbers(rows["split"], labelled),
            intents.indices.to_numpy().astype(np.int8),
        )
        ids = rows["query_id"].combine_chunks()
        table = IdTable.of(ids)
        own = np.full(rows.num_rows + 1, -1, np.int32)
        own[table.numbers(asked_pairs["query_id"])] = generated
        return cls(
            rows.select(_COLUMNS).combine_chunks(),
            ids,
            table,
            asked,
            Known(index.hashes, index.splits, starts, known),
            intents.dictionary.to_pylist(),
            models.dictionary.to_pylist(),
            models.indices.to_numpy(),
            own[:-1] == positive,
        )


def _positive_scores(rows: pa.Table) -> np.ndarray:
    """The cosine that each query's best model gave its positive, float32; NaN without such a vote."""
    scores = np.full(rows.num_rows, np.nan, np.float32)
    votes = rows["votes"].combine_chunks()
    owner = pc.list_parent_indices(votes).to_numpy()
    flat = votes.flatten()
    best = rows["best_model"].combine_chunks().take(pa.array(owner))
    mine = pc.equal(flat.field("model"), best).fill_null(False).to_numpy(zero_copy_only=False)
    found = flat.field("positive_score").to_numpy(zero_copy_only=False).astype(np.float32)
    scores[owner[mine]] = found[mine]
    return scores
