-- What every version was made from directly. Reading <dataset>/rejects counts as reading the dataset. What a dataset grew
-- from is left out: a version holds all rows of the one before it that still stand.
CREATE VIEW made_from AS
SELECT DISTINCT dataset, version, regexp_replace(input_dataset, '/rejects$', '') AS source_dataset,
    input_version AS source_version
FROM version_inputs WHERE input_name <> 'previous';

-- The same, all the way down, of all versions at once; depth 1 is a direct source. ancestors_of walks from one alone.
CREATE VIEW ancestors AS
WITH RECURSIVE walk AS (
    SELECT *, 1 AS depth FROM made_from
    UNION
    SELECT w.dataset, w.version, m.source_dataset, m.source_version, w.depth + 1
    FROM walk w JOIN made_from m ON m.dataset = w.source_dataset AND m.version = w.source_version
)
SELECT dataset AS descendant_dataset, version AS descendant_version, source_dataset AS ancestor_dataset,
    source_version AS ancestor_version, min(depth) AS depth
FROM walk
GROUP BY ALL;

-- The same pairs, to be read from the other end: what was made of a version.
CREATE VIEW descendants AS
SELECT ancestor_dataset, ancestor_version, descendant_dataset, descendant_version, depth FROM ancestors;

-- The scores of each query, one a row.
CREATE VIEW query_scores AS
SELECT dataset, version, system, model_version, query_id, intent, n_relevant, unnest(map_keys(scores)) AS metric,
    unnest(map_values(scores)) AS score
FROM evaluated_queries;

-- Means over the queries of an intent, and the mean over intents as the intent 'average'.
CREATE VIEW evaluations AS
WITH means AS (
    SELECT dataset, version, system, model_version, intent, metric, avg(score) AS score, count(*)::INTEGER AS n_queries
    FROM query_scores GROUP BY ALL
)
FROM means
UNION ALL
SELECT dataset, version, system, model_version, 'average', metric, avg(score), sum(n_queries)::INTEGER
FROM means GROUP BY ALL;

-- Every run that did work for a version: those that built it, and those over groups of its parts, those that bought
-- answers by batches and those that failed before, which are of the next run that ended with a version of the same
-- request. Of older releases, which do not tell the request, that is the next one of the same step and code. Runs that
-- were killed tell nothing of what they did.
CREATE VIEW work AS
WITH ended AS (
    SELECT run_id, dataset, version, step, code_version, coalesce(request_id, '') AS asked, started_at, ended_at, reused
    FROM steps
    WHERE status IN ('complete', 'failed') AND (version IS NOT NULL OR NOT coalesce(reused, false))
)
SELECT dataset, version, run_id FROM ended WHERE version IS NOT NULL AND NOT coalesce(reused, false)
UNION ALL
SELECT w.dataset, made.version, w.run_id
FROM (FROM ended WHERE version IS NULL) w ASOF JOIN (FROM ended WHERE version IS NOT NULL) made
    ON w.dataset = made.dataset AND w.step = made.step AND w.code_version = made.code_version AND w.asked = made.asked
    AND w.started_at <= made.ended_at;

-- The run that built a version, and when the build before it began. A version that was dropped may be made again with
-- other rows, so that the last build counts. One that found all parts made, and so counted nothing of what is in them,
-- comes after all others; rows_built is of steps that work part by part.
CREATE VIEW last_builds AS
WITH builds AS (
    SELECT s.dataset, s.version, s.run_id, s.started_at, coalesce(c.value, 1) > 0 AS has_computed
    FROM steps s LEFT JOIN counters c ON c.run_id = s.run_id AND c.name = 'rows_built'
    WHERE s.status = 'complete' AND s.version IS NOT NULL AND NOT coalesce(s.reused, false)
)
SELECT dataset, version, run_id,
    lag(started_at) OVER (PARTITION BY dataset, version, has_computed ORDER BY started_at, run_id) AS built_before
FROM builds
QUALIFY row_number() OVER (PARTITION BY dataset, version ORDER BY has_computed DESC, started_at DESC, run_id DESC) = 1;
