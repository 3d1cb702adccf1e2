"""Every dataset's rows in one place: stages never import one another, they meet only here.

Ids are stable and content-made, so that lineage is a join:
``query_id`` -> ``need_id`` -> ``passage_id`` -> ``doc_id`` -> ``url_id``.
"""

from __future__ import annotations

import pyarrow as pa

from pipeline_tasks.core.schema import Column, RowSchema

_text = pa.string()
_texts = pa.list_(pa.string())
_shared_texts = pa.list_(pa.dictionary(pa.int32(), pa.string()))
_int = pa.int32()
_vector = pa.list_(pa.float32())

URL_ID = Column("url_id", _text, "16 hex digits of sha256(canonical URL)")
DOC_ID = Column("doc_id", _text, "16 hex digits of sha256(url_id, bytes of the PDF)")
PASSAGE_ID = Column("passage_id", _text, "16 hex digits of sha256(doc_id, first and last character)")
NEED_ID = Column("need_id", _text, "16 hex digits of sha256(passage_id, intent, prompt)")
QUERY_ID = Column("query_id", _text, "16 hex digits of sha256(need_id, prompt)")
URL = Column("url", _text, "address that the document was fetched from")
TITLE = Column("title", _text, "title from the PDF's metadata, else its first line")
INTENT = Column("intent", _text, "search intent: qa, qadoc, twitter, factcheck, nli or sts")
QUERY = Column("query", _text, "query as a user would write it, without instruction")
POSITIVE = Column("positive", _text, "text of a passage that answers the query")
SPLIT = Column("split", _text, "train, dev or test; decided per document, so that no page is on both sides")
RESPONSE_ID = Column("response_id", _text, "key of the LLM's answer in the response store")

URLS = RowSchema(
    "urls",
    "url_id",
    (
        URL_ID,
        Column("url", _text, "canonical URL, or file:// path"),
        Column("source", _text, "list or folder that named it"),
    ),
)

DOWNLOADS = RowSchema(
    "downloads",
    "doc_id",
    (
        DOC_ID,
        URL_ID,
        URL,
        Column("content", pa.large_binary(), "the PDF's bytes"),
        Column("content_sha256", _text, "sha256 of the bytes"),
        Column("size_bytes", pa.int64(), "number of bytes"),
    ),
)

DOCUMENTS = RowSchema(
    "documents",
    "doc_id",
    (
        DOC_ID,
        URL_ID,
        URL,
        Column("content_sha256", _text, "sha256 of the PDF's bytes"),
        TITLE,
        Column("text", _text, "running text, pages joined by a blank line"),
        Column("page_starts", pa.list_(_int), "offset in text of each page's first character"),
        Column("n_pages", _int, "pages of the PDF"),
        Column("n_words", _int, "words of the running text"),
    ),
)

PASSAGES = RowSchema(
    "passages",
    "passage_id",
    (
        PASSAGE_ID,
        DOC_ID,
        URL,
        TITLE,
        Column("page", _int, "1-based page on which the passage begins"),
        Column("start_char", _int, "offset of its first character in the document's text"),
        Column("end_char", _int, "offset after its last character"),
        Column("text", _text, "the passage"),
        Column("n_tokens", _int, "tokens of the chunking tokenizer, special tokens not counted"),
        SPLIT,
    ),
)

PASSAGE_EMBEDDINGS = RowSchema(
    "passage_embeddings",
    "passage_id",
    (PASSAGE_ID, DOC_ID, Column("embedding", _vector, "L2-normalised vector of the passage")),
)

NEEDS = RowSchema(
    "needs",
    "need_id",
    (
        NEED_ID,
        PASSAGE_ID,
        DOC_ID,
        INTENT,
        Column("need", _text, "information need that the LLM saw in the passage"),
        Column("passage", _text, "the passage's text"),
        SPLIT,
        RESPONSE_ID,
    ),
)

PAIRS = RowSchema(
    "pairs",
    "query_id",
    (
        QUERY_ID,
        NEED_ID,
        PASSAGE_ID,
        DOC_ID,
        INTENT,
        QUERY,
        Column("positive_id", _text, "id of the positive as a passage of its own"),
        Column("positive", _text, "passage that the LLM wrote for the query (DMRetriever 3.3.1)"),
        Column("passage", _text, "source passage from the PDF"),
        SPLIT,
        Column("origin", _text, "dm (domain) or gd (general domain)"),
        Column("need_response_id", _text, "response_id of the information need"),
        Column("response_id", _text, "response_id of the pair; empty for general-domain pairs"),
    ),
)

PAIR_EMBEDDINGS = RowSchema(
    "pair_embeddings",
    "query_id",
    (
        QUERY_ID,
        PASSAGE_ID,
        DOC_ID,
        INTENT,
        Column("query_embedding", _vector, "L2-normalised vector of the query with the model's own prefix"),
        Column("positive_id", _text, "id of the pair's positive"),
        Column("positive_embedding", _vector, "L2-normalised vector of the positive"),
    ),
)

RANKINGS = RowSchema(
    "rankings",
    "query_id",
    (
        QUERY_ID,
        PASSAGE_ID,
        DOC_ID,
        INTENT,
        Column("passage_ids", _texts, "best passages, rank 1 first; ties by passage id"),
        Column("scores", _vector, "cosine of query and passage, same order"),
        Column("positive_score", pa.float32(), "cosine of query and its own generated positive, wherever it ranks"),
    ),
)

_vote = pa.struct(
    [
        pa.field("model", _text),
        pa.field("passage_ids", _texts),
        pa.field("positive_rank", _int),
        pa.field("positive_score", pa.float32()),
    ]
)

LABELLED = RowSchema(
    "labelled",
    "query_id",
    (
        QUERY_ID,
        INTENT,
        QUERY,
        Column("positive_id", _text, "passage that the reference models agree on"),
        POSITIVE,
        Column("source_passage_id", _text, "PDF passage that the query was written from"),
        SPLIT,
        Column("votes", pa.list_(_vote), "top N of each reference model; rank and cosine it gives the positive"),
        Column("best_model", _text, "reference model whose ranking negatives are mined from"),
    ),
)

TRIPLETS = RowSchema(
    "triplets",
    "query_id",
    (
        QUERY_ID,
        INTENT,
        QUERY,
        Column("positive_id", _text, "agreed positive passage"),
        POSITIVE,
        Column("positive_score", pa.float32(), "cosine of query and positive, by the mining model"),
        Column("negative_ids", _texts, "hard negatives in rank order; fewer than asked stay fewer"),
        Column("negatives", _shared_texts, "their texts, same order; a text is stored once a part"),
        Column("negative_scores", _vector, "their cosines, each below alpha * positive_score"),
        SPLIT,
        Column("mining_model", _text, "reference model that ranked the negatives"),
    ),
)

EVALUATIONS = RowSchema(
    "evaluations",
    "evaluation_id",
    (
        Column("evaluation_id", _text, "system, intent and metric, joined by a slash"),
        Column("system", _text, "what was evaluated: a model's name, bm25, or <size>/<stage>"),
        Column("model_version", _text, "dataset@version of a trained model, else empty"),
        Column("intent", _text, "search intent, or average over the intents"),
        Column("metric", _text, "ndcg@10, mrr@10 or recall@10"),
        Column("score", pa.float64(), "0 to 1"),
        Column("n_queries", _int, "queries averaged"),
    ),
)

ALL = (
    URLS,
    DOWNLOADS,
    DOCUMENTS,
    PASSAGES,
    PASSAGE_EMBEDDINGS,
    NEEDS,
    PAIRS,
    PAIR_EMBEDDINGS,
    RANKINGS,
    LABELLED,
    TRIPLETS,
    EVALUATIONS,
)
