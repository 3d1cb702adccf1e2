-- The columns that views and macros read, one table per row schema. They stay empty: the fold lays the rows of every
-- dataset of that schema over them as all_<schema>, so that a macro also works before the first such dataset exists.
CREATE SCHEMA shape;

CREATE TABLE shape.documents (
    dataset VARCHAR, doc_id VARCHAR, url VARCHAR, title VARCHAR, n_pages INTEGER, n_words INTEGER, page_starts INTEGER[]
);

CREATE TABLE shape.passages (
    dataset VARCHAR, passage_id VARCHAR, doc_id VARCHAR, url VARCHAR, title VARCHAR, page INTEGER, "text" VARCHAR, split VARCHAR
);

CREATE TABLE shape.needs (
    dataset VARCHAR, need_id VARCHAR, passage_id VARCHAR, intent VARCHAR, need VARCHAR, response_id VARCHAR
);

CREATE TABLE shape.pairs (
    dataset VARCHAR, query_id VARCHAR, need_id VARCHAR, passage_id VARCHAR, doc_id VARCHAR, intent VARCHAR, query VARCHAR,
    positive_id VARCHAR, positive VARCHAR, passage VARCHAR, split VARCHAR, origin VARCHAR, need_response_id VARCHAR,
    response_id VARCHAR
);

CREATE TABLE shape.rankings (
    dataset VARCHAR, query_id VARCHAR, passage_ids VARCHAR[], scores FLOAT[]
);

CREATE TABLE shape.labelled (
    dataset VARCHAR, query_id VARCHAR, intent VARCHAR, query VARCHAR, positive_id VARCHAR, positive VARCHAR,
    source_passage_id VARCHAR, split VARCHAR, best_model VARCHAR,
    votes STRUCT(model VARCHAR, passage_ids VARCHAR[], positive_rank INTEGER, positive_score FLOAT)[]
);

CREATE TABLE shape.triplets (
    dataset VARCHAR, query_id VARCHAR, query VARCHAR, positive_id VARCHAR, positive_score FLOAT, negative_ids VARCHAR[],
    negatives VARCHAR[], negative_scores FLOAT[], mining_model VARCHAR
);
