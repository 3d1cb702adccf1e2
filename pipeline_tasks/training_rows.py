"""Rows that models are trained on beside pairs: a query with passages, and how good each of them is."""

from __future__ import annotations

import pyarrow as pa

from pipeline_tasks import columns as c
from pipeline_tasks.core.schema import Column, RowSchema

_text = pa.string()
_texts = pa.list_(pa.string())
_shared_texts = pa.list_(pa.dictionary(pa.int32(), pa.string()))
_vector = pa.list_(pa.float32())
_ranks = pa.list_(pa.int32())

TRIPLETS = RowSchema(
    "triplets",
    "query_id",
    (
        c.QUERY_ID,
        c.INTENT,
        c.QUERY,
        Column("positive_id", _text, "positive passage, as labelled"),
        c.POSITIVE,
        Column("positive_score", pa.float32(), "cosine of query and positive, by the mining model"),
        Column("negative_ids", _texts, "hard negatives in rank order; fewer than asked stay fewer"),
        Column("negatives", _shared_texts, "their texts; a text is stored once a part", along="negative_ids"),
        Column("negative_scores", _vector, "their cosines, below alpha * positive_score", along="negative_ids"),
        c.SPLIT,
        Column("mining_model", _text, "reference model that ranked the negatives"),
    ),
)

SCORED_TRIPLETS = RowSchema(
    "scored_triplets",
    "query_id",
    (
        *TRIPLETS.columns,
        Column("teacher", _text, "model that the scores below are of"),
        Column("teacher_positive_score", pa.float32(), "its cosine of query and positive"),
        Column("teacher_negative_scores", _vector, "its cosines of the negatives", along="negative_ids"),
    ),
)

RELABELLED = RowSchema(
    "relabelled",
    "query_id",
    (
        c.QUERY_ID,
        c.INTENT,
        c.INSTRUCTION,
        c.QUERY,
        Column("source_passage_id", _text, "passage that the query was written for"),
        Column("source_rank", pa.int32(), "its place among the passages below, 1-based; 1: it stays the positive"),
        Column("passage_ids", _texts, "passages that an LLM compared, best first by all its scores together"),
        Column("passages", _shared_texts, "their texts; a text is stored once a part", along="passage_ids"),
        Column(
            "likelihoods",
            _vector,
            "log P(query | passage), in nats; null where an endpoint gave grades",
            along="passage_ids",
        ),
        Column(
            "relevances",
            _vector,
            "expected grade of relevance, 0 to 3, or the grade that was given",
            along="passage_ids",
        ),
        Column("likelihood_ranks", _ranks, "1-based ranks by likelihood alone", along="passage_ids"),
        Column("relevance_ranks", _ranks, "1-based ranks by relevance alone", along="passage_ids"),
        c.SPLIT,
    ),
)

RANK_LISTS = RowSchema(
    "rank_lists",
    "list_id",
    (
        Column("list_id", _text, "16 hex digits of sha256(query_id, number of the list)"),
        c.QUERY_ID,
        c.INTENT,
        c.QUERY,
        Column("passage_ids", _texts, "one passage of each interval of the query's ranking, best first"),
        Column("passages", _shared_texts, "their texts; a text is stored once a part", along="passage_ids"),
        Column("scores", _vector, "what the ranker gives them, in its own unit", along="passage_ids"),
        c.SPLIT,
    ),
)

TUPLES = RowSchema(
    "tuples",
    "query_id",
    (
        c.QUERY_ID,
        c.PASSAGE_ID,
        c.DOC_ID,
        c.INTENT,
        c.QUERY,
        c.INSTRUCTION,
        Column("positive_id", _text, "id of the positive as a passage of its own"),
        c.POSITIVE,
        Column("poisoned_instruction", _text, "instruction under which the positive does not answer the query"),
        Column("poisoned_query", _text, "query that the positive does not answer under the instruction"),
        Column("instruction_passage", _text, "passage for the query under the poisoned instruction"),
        Column("query_passage", _text, "passage for the poisoned query under the instruction"),
        c.SPLIT,
        Column("instruction_response_id", _text, "response_id of the instruction"),
        Column("poisoned_instruction_response_id", _text, "response_id of the poisoned instruction"),
        Column("poisoned_query_response_id", _text, "response_id of the poisoned query"),
        Column("instruction_passage_response_id", _text, "response_id of the instruction_passage"),
        Column("query_passage_response_id", _text, "response_id of the query_passage"),
    ),
)
