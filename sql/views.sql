-- What every version was made from, all the way down; depth 1 is a direct input. Reading <dataset>/rejects counts as
-- reading the dataset.
CREATE VIEW ancestors AS
WITH RECURSIVE edges AS (
    SELECT DISTINCT dataset, version, regexp_replace(input_dataset, '/rejects$', '') AS input_dataset, input_version
    FROM version_inputs
),
walk AS (
    SELECT dataset, version, input_dataset, input_version, 1 AS depth FROM edges
    UNION
    SELECT w.dataset, w.version, e.input_dataset, e.input_version, w.depth + 1
    FROM walk w JOIN edges e ON e.dataset = w.input_dataset AND e.version = w.input_version
)
SELECT dataset AS descendant_dataset, version AS descendant_version, input_dataset AS ancestor_dataset,
    input_version AS ancestor_version, min(depth) AS depth
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
