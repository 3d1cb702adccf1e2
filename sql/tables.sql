-- Tables of the lineage database. All times are UTC; everything is rebuilt from the files of the store by a fold.

-- One row per run of a step, in whatever order its events are read.
-- status: complete, failed, or unfinished (still running, or killed without a word).
-- device: what torch computed on, where the step's own process had loaded it; packages: library -> version.
-- request_id: the id of the version that the run was to make, or of what was asked of a growing dataset; NULL in older
-- releases. part_group: i/n of a run over every n-th part alone, which makes no version.
-- engine: local or ray; workers: processes that it may have had for parts or partitions on this machine.
CREATE TABLE steps (
    run_id VARCHAR, step VARCHAR, code_version VARCHAR, dataset VARCHAR, version VARCHAR, status VARCHAR,
    started_at TIMESTAMP, ended_at TIMESTAMP, duration_s DOUBLE, reused BOOLEAN, part_group VARCHAR, request_id VARCHAR,
    peak_memory_bytes BIGINT, error VARCHAR, release VARCHAR, image VARCHAR, python VARCHAR, processor VARCHAR,
    device VARCHAR, threads INTEGER, packages MAP(VARCHAR, VARCHAR), engine VARCHAR, workers INTEGER
);

-- created_at: when the run that built it completed; the manifest file's time where no event tells.
CREATE TABLE versions (
    dataset VARCHAR, version VARCHAR, step VARCHAR, code_version VARCHAR, created_at TIMESTAMP, rows BIGINT, bytes BIGINT,
    parts BIGINT, n_removals BIGINT, n_rejects BIGINT, rows_schema VARCHAR, key_column VARCHAR, is_latest BOOLEAN
);

CREATE TABLE version_inputs (
    dataset VARCHAR, version VARCHAR, input_name VARCHAR, input_dataset VARCHAR, input_version VARCHAR
);

-- kind: part, removal or reject. A removal withdraws keys of column_name from parts first_part <= position < last_part.
CREATE TABLE parts (
    dataset VARCHAR, version VARCHAR, position BIGINT, kind VARCHAR, name VARCHAR, sha256 VARCHAR, rows BIGINT,
    size_bytes BIGINT, column_name VARCHAR, first_part BIGINT, last_part BIGINT
);

-- value: text as it is, anything else as JSON.
CREATE TABLE params (dataset VARCHAR, version VARCHAR, name VARCHAR, value VARCHAR);

-- Licence of every model whose weights stand behind a version, directly or through what it was made from.
CREATE TABLE licences (dataset VARCHAR, version VARCHAR, model VARCHAR, licence VARCHAR, non_commercial BOOLEAN);

CREATE TABLE counters (
    run_id VARCHAR, step VARCHAR, dataset VARCHAR, version VARCHAR, name VARCHAR, value DOUBLE
);

-- Every name that a person moved: from one version to another, at moved_at. What builds moved is in steps.
CREATE TABLE moves (
    dataset VARCHAR, name VARCHAR, version VARCHAR, version_before VARCHAR, moved_at TIMESTAMP, moved_by VARCHAR
);

-- Every refused row of every version, with its reason.
CREATE TABLE rejects (
    dataset VARCHAR, version VARCHAR, step VARCHAR, row_id VARCHAR, reason VARCHAR, detail VARCHAR
);

-- One row per paid answer, kept under the sha256 of its request; created_at is the endpoint's own time.
CREATE TABLE llm_calls (
    response_id VARCHAR, model VARCHAR, prompt_tokens BIGINT, completion_tokens BIGINT, cost_usd DOUBLE,
    finish_reason VARCHAR, created_at TIMESTAMP
);

-- Which answers stand behind the rows of a part, once each.
CREATE TABLE part_responses (sha256 VARCHAR, response_id VARCHAR);

-- What each system scored on each query of a judged set; scores: measure -> value. grades are along passage_ids, the
-- first passages of the ranking; NULL: nobody judged.
CREATE TABLE evaluated_queries (
    dataset VARCHAR, version VARCHAR, system VARCHAR, model_version VARCHAR, query_id VARCHAR, intent VARCHAR,
    query VARCHAR, n_relevant INTEGER, scores MAP(VARCHAR, DOUBLE), passage_ids VARCHAR[], grades INTEGER[]
);

-- How every trained model was trained: the rows of its file training_curve.parquet; 0: the weights as they came.
CREATE TABLE training_curves (
    dataset VARCHAR, version VARCHAR, optimiser_step INTEGER, epoch DOUBLE, n_rows BIGINT, loss DOUBLE,
    learning_rate DOUBLE, dev_score DOUBLE
);

-- What the sampler of every model that had one decided: the rows of its file sampling_trajectory.parquet.
CREATE TABLE sampling_trajectories (
    dataset VARCHAR, version VARCHAR, optimiser_step INTEGER, source VARCHAR, probability DOUBLE, n_batches BIGINT,
    influence DOUBLE, influences MAP(VARCHAR, DOUBLE), gradients BIGINT, deciding_gradients BIGINT, n_tokens BIGINT,
    n_deciding_tokens BIGINT
);

-- What the fold could not read, and why; the rest of the database is whole without it.
CREATE TABLE problems (key VARCHAR, problem VARCHAR);

-- Every event file whose content is in the tables.
CREATE TABLE events (key VARCHAR);

-- Every manifest whose content is in the tables, as it was listed: a version may be made again under the same id.
CREATE TABLE manifests (key VARCHAR, size_bytes BIGINT, modified DOUBLE);

-- base: sha256 of what no row may be taken over without; has_rows: whether the views of datasets are there.
CREATE TABLE fold_state (fingerprint VARCHAR, base VARCHAR, has_rows BOOLEAN, folded_at TIMESTAMP);
