"""Every dataset's rows in one place: stages meet through them.

Columns that several share are in :mod:`pipeline_tasks.columns`, and the rows that training adds to pairs in
:mod:`pipeline_tasks.training_rows`.
"""

from __future__ import annotations

import pyarrow as pa

from pipeline_tasks import columns as c
from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.training_rows import RANK_LISTS, RELABELLED, SCORED_TRIPLETS, TRIPLETS, TUPLES

_text = pa.string()
_texts = pa.list_(pa.string())
_int = pa.int32()
_vector = pa.list_(pa.float32())
_grades = pa.list_(pa.int32())

SEARCHES = RowSchema(
    "searches",
    "search_id",
    (
        c.SEARCH_ID,
        Column("query", _text, "what a provider is asked: words, or a pattern of URLs"),
        Column("plan", _text, "table of the domain's search.toml that it comes from"),
        Column("terms", pa.map_(_text, _text), "axis of the plan (hazard, place) -> term in this query"),
    ),
)

SEARCH_RESULTS = RowSchema(
    "search_results",
    "result_id",
    (
        Column("result_id", _text, "16 hex digits of sha256(search_id, provider, url_id)"),
        c.SEARCH_ID,
        Column("provider", _text, "who answered: searxng, brave or common_crawl"),
        Column("rank", _int, "place in the provider's answer, 1-based"),
        c.URL_ID,
        Column("url", _text, "canonical URL of the result"),
        Column("title", _text, "title as the provider gives it, cleaned and cut; empty where it knows none"),
        Column("response_id", _text, "key of the provider's answer in the response store"),
    ),
)

URLS = RowSchema(
    "urls",
    "url_id",
    (
        c.URL_ID,
        Column("url", _text, "canonical URL, or file:// path"),
        Column("source", _text, "list, folder or search provider that named it"),
    ),
)

DOWNLOADS = RowSchema(
    "downloads",
    "doc_id",
    (
        c.DOC_ID,
        c.URL_ID,
        c.URL,
        Column("content", pa.large_binary(), "the PDF's bytes"),
        Column("content_sha256", _text, "sha256 of the bytes", own=True),
        Column("size_bytes", pa.int64(), "number of bytes"),
        Column("status", _int, "HTTP status of the fetch; 0 for a file"),
        Column("fetched_url", _text, "address that gave the bytes, after redirects"),
        Column("etag", _text, "the server's ETag, sent back on a refresh; may be empty"),
        Column("last_modified", _text, "the server's Last-Modified, sent back on a refresh; may be empty"),
    ),
)

_aside = pa.struct([pa.field("kind", _text), pa.field("page", _int), pa.field("text", _text)])

DOCUMENTS = RowSchema(
    "documents",
    "doc_id",
    (
        c.DOC_ID,
        c.URL_ID,
        c.URL,
        Column("content_sha256", _text, "sha256 of the PDF's bytes", own=True),
        c.TITLE,
        Column("text", _text, "running text; paragraphs a blank line apart, sentences not cut at page ends"),
        Column("page_starts", pa.list_(_int), "offset in text of each page's first character (empty: the next page's)"),
        Column("n_pages", _int, "pages of the PDF"),
        Column("n_words", _int, "words of the running text"),
        Column("n_unreadable_pages", _int, "pages that the engine could not read; they are empty"),
        Column("language", _text, "ISO 639-1 code of the text's language, or und"),
        Column("date", _text, "date printed on the first two pages, else of creation: YYYY, YYYY-MM or YYYY-MM-DD"),
        Column("created", _text, "date of creation in the PDF's metadata, or empty"),
        Column("modified", _text, "date of the last change in the PDF's metadata, or empty"),
        Column("asides", pa.list_(_aside), "what is no running text, by 1-based page; see docs/extraction.md"),
    ),
)

SKETCHES = RowSchema(
    "sketches",
    "doc_id",
    (
        c.DOC_ID,
        Column("signature", pa.list_(pa.uint32()), "MinHash of the shingles, datasketch's scheme affine32 with seed 1"),
        Column("shingles", pa.list_(pa.uint64()), "hashes of the text's distinct word shingles, ascending"),
    ),
)

DOCUMENT_CLUSTERS = RowSchema(
    "document_clusters",
    "doc_id",
    (
        c.DOC_ID,
        Column("representative_id", _text, "doc_id of the earlier document that this one repeats, or its own"),
        Column("jaccard", pa.float64(), "exact Jaccard similarity of the two; 1 for a representative"),
    ),
)

HELD_OUT = RowSchema("held_out", "doc_id", (c.DOC_ID, c.SPLIT, Column("reason", _text, "judged or drawn"), c.URL_ID))

PASSAGES = RowSchema(
    "passages",
    "passage_id",
    (
        c.PASSAGE_ID,
        c.DOC_ID,
        c.URL,
        c.TITLE,
        Column("page", _int, "1-based page on which the passage begins"),
        Column("start_char", _int, "offset of its first character in the document's text"),
        Column("end_char", _int, "offset after its last character"),
        Column("text", _text, "the passage"),
        Column("n_tokens", _int, "tokens of the chunking tokenizer, special tokens not counted"),
        c.SPLIT,
    ),
)

PASSAGE_EMBEDDINGS = RowSchema(
    "passage_embeddings",
    "passage_id",
    (c.PASSAGE_ID, c.DOC_ID, Column("embedding", _vector, "L2-normalised vector of the passage")),
)

PASSAGE_DUPLICATES = RowSchema(
    "passage_duplicates",
    "passage_id",
    (
        c.PASSAGE_ID,
        Column("representative_id", _text, "earlier passage that it repeats and that stays; else itself"),
        Column("cosine", pa.float32(), "cosine of the two; 1 for a passage that stays"),
    ),
)

NEEDS = RowSchema(
    "needs",
    "need_id",
    (
        c.NEED_ID,
        c.PASSAGE_ID,
        c.DOC_ID,
        c.INTENT,
        Column("need", _text, "information need that the LLM saw in the passage"),
        Column("passage", _text, "the passage's text"),
        c.SPLIT,
        c.RESPONSE_ID,
    ),
)

PAIRS = RowSchema(
    "pairs",
    "query_id",
    (
        c.QUERY_ID,
        c.NEED_ID,
        c.PASSAGE_ID,
        c.DOC_ID,
        c.INTENT,
        c.QUERY,
        Column("positive_id", _text, "id of the positive as a passage of its own", own=True),
        Column("positive", _text, "passage that the LLM wrote for the query (DMRetriever 3.3.1)"),
        Column("passage", _text, "source passage from the PDF"),
        c.SPLIT,
        c.ORIGIN,
        Column("need_response_id", _text, "response_id of the information need"),
        Column("response_id", _text, "response_id of the pair; empty for general-domain pairs"),
    ),
)

_EVENT_ID = Column("event_id", _text, "16 hex digits of sha256(passage_id, prompt)")
_EVENT_OF = (c.PASSAGE_ID, c.DOC_ID, Column("passage", _text, "the passage's text"), c.SPLIT, c.RESPONSE_ID)
EVENTS = RowSchema("passage_events", "event_id", (_EVENT_ID, *c.OF_AN_EVENT, *_EVENT_OF))

PAIR_EMBEDDINGS = RowSchema(
    "pair_embeddings",
    "query_id",
    (
        c.QUERY_ID,
        c.PASSAGE_ID,
        c.DOC_ID,
        c.INTENT,
        Column("query_embedding", _vector, "L2-normalised vector of the query with the model's own prefix"),
        Column("positive_id", _text, "id of the pair's positive"),
        Column("positive_embedding", _vector, "L2-normalised vector of the positive"),
        c.ORIGIN,
    ),
)

RANKINGS = RowSchema(
    "rankings",
    "query_id",
    (
        c.QUERY_ID,
        c.PASSAGE_ID,
        c.DOC_ID,
        c.INTENT,
        Column("passage_ids", _texts, "best passages, rank 1 first; ties by passage id"),
        Column("scores", _vector, "cosine of query and passage, same order", along="passage_ids"),
        Column("positive_score", pa.float32(), "cosine of query and its own generated positive, wherever it ranks"),
    ),
)

_vote = pa.struct(
    [("model", _text), ("passage_ids", _texts), ("positive_rank", _int), ("positive_score", pa.float32())]
)

LABELLED = RowSchema(
    "labelled",
    "query_id",
    (
        c.QUERY_ID,
        c.INTENT,
        c.QUERY,
        Column("positive_id", _text, "passage that the reference models agree on"),
        c.POSITIVE,
        Column("source_passage_id", _text, "PDF passage that the query was written from"),
        c.SPLIT,
        Column("votes", pa.list_(_vote), "top N of each reference model; rank and cosine it gives the positive"),
        Column("best_model", _text, "reference model whose ranking negatives are mined from"),
    ),
)

JUDGED_QUERIES = RowSchema(
    "judged_queries",
    "query_id",
    (
        Column("query_id", _text, "id of the query in its set"),
        Column("doc_id", _text, "document that it asks about; empty where it was asked of none, or of several"),
        c.INTENT,
        c.QUERY,
        Column("passage_ids", _texts, "passages that were judged, by rising id"),
        Column("grades", _grades, "how well each serves: 0 not at all, more is better", along="passage_ids"),
    ),
)

ALTERED_QUERIES = RowSchema(
    "altered_queries",
    "query_id",
    (
        Column("query_id", _text, "id of the query in its set; of one by a rule the rule behind it, after a slash"),
        Column("doc_id", _text, "document that it asks about; empty where it was asked of none"),
        c.INTENT,
        c.QUERY,
        Column("instruction", _text, "what the query is first asked with"),
        Column("changed_instruction", _text, "what it is then asked with"),
        Column("passage_ids", _texts, "passages that were judged, by rising id"),
        Column("grades", _grades, "under the instruction: 0 not relevant, more is better", along="passage_ids"),
        Column("changed_grades", _grades, "under the changed instruction", along="passage_ids"),
    ),
)

EVALUATIONS = RowSchema(
    "evaluations",
    "evaluation_id",
    (
        Column("evaluation_id", _text, "system and query_id, joined by a slash"),
        Column("system", _text, "what was evaluated: a model's name, bm25, <size>/<stage>, or rrf of some of these"),
        Column("model_version", _text, "dataset@version of a trained model, else empty"),
        Column("query_id", _text, "id of the query in its set"),
        c.INTENT,
        c.QUERY,
        Column("n_relevant", _int, "passages with a grade above 0"),
        Column("scores", pa.map_(_text, pa.float64()), "measure (ndcg@10, mrr@10, ...) -> 0 to 1; p-mrr: -1 to 1"),
        Column("passage_ids", _texts, "first passages of the ranking, best first"),
        Column("grades", _grades, "their grades; null where nobody judged", along="passage_ids"),
    ),
)

INSTRUCTED_PAIRS = PAIRS.plus(c.INSTRUCTION)
INSTRUCTED_TRIPLETS = TRIPLETS.plus(c.INSTRUCTION)
INSTRUCTED_SCORED_TRIPLETS = SCORED_TRIPLETS.plus(c.INSTRUCTION)
INSTRUCTED_QUERIES = JUDGED_QUERIES.plus(c.INSTRUCTION)
TOLD_PAIRS = INSTRUCTED_PAIRS.plus(Column("instruction_response_id", _text, "response_id of the instruction"))

ALL = (
    SEARCHES, SEARCH_RESULTS, URLS, DOWNLOADS, DOCUMENTS, SKETCHES, DOCUMENT_CLUSTERS, HELD_OUT, PASSAGES,
    PASSAGE_EMBEDDINGS, PASSAGE_DUPLICATES, NEEDS, EVENTS, PAIRS, PAIR_EMBEDDINGS, RANKINGS, LABELLED, TRIPLETS,
    SCORED_TRIPLETS, RELABELLED, RANK_LISTS, TUPLES, JUDGED_QUERIES, ALTERED_QUERIES, EVALUATIONS,
)  # fmt: skip
