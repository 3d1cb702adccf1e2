-- Which pairs do not enter mtp, and why. Reads pairs(query_id, query, intent, origin, split, passage_id, place),
-- near_queries(query_id, first_id), caps(origin, most) and intent_limits(most, times).
-- Of queries with the same words under one intent, or nearly the same, the first place stays; a set that is not of our
-- passages may answer one query with several passages. Where there are too many, the lowest hashes stay, so that a refresh hardly changes the
-- sample: first by origin, then, of what an LLM wrote for training, by intent.
WITH same AS (
    SELECT
        *,
        first(query_id) OVER words AS first_id,
        first(origin) OVER words = origin AND coalesce(passage_id, '') = '' AND origin <> 'dm' AS is_another_answer
    FROM pairs
    WINDOW words AS (
        PARTITION BY intent, trim(regexp_replace(lower(query), '[\s\v]+', ' ', 'g')) ORDER BY place
    )
),
said AS (
    SELECT * FROM same WHERE query_id = first_id OR is_another_answer
),
distinct_pairs AS (
    SELECT said.* FROM said ANTI JOIN near_queries USING (query_id)
),
of_origin AS (
    SELECT
        distinct_pairs.*,
        caps.most,
        row_number() OVER (PARTITION BY distinct_pairs.origin ORDER BY md5(query_id), query_id) AS turn
    FROM distinct_pairs LEFT JOIN caps ON distinct_pairs.origin = caps.origin
),
of_intent AS (
    SELECT
        query_id,
        intent,
        row_number() OVER (PARTITION BY intent ORDER BY md5(query_id), query_id) AS turn,
        count(*) OVER (PARTITION BY intent) AS n_pairs
    FROM of_origin
    WHERE origin = 'dm' AND coalesce(split, 'train') = 'train' AND (most IS NULL OR turn <= most)
),
limits AS (
    SELECT least(any_value(intent_limits.most), floor(any_value(times) * min(n_pairs))) AS most
    FROM of_intent, intent_limits
)
SELECT query_id, 'duplicate_query' AS reason, 'of ' || first_id || ': ' || query AS detail
FROM same
WHERE query_id <> first_id AND NOT is_another_answer
UNION ALL
SELECT query_id, 'near_query', 'of ' || near_queries.first_id || ': ' || query
FROM said JOIN near_queries USING (query_id)
UNION ALL
SELECT query_id, 'over_cap', 'beyond ' || most || ' pairs of its origin, by the hash of its id'
FROM of_origin
WHERE turn > most
UNION ALL
SELECT query_id, 'over_intent', 'beyond ' || CAST(limits.most AS BIGINT) || ' pairs of its intent, by the hash of its id'
FROM of_intent, limits
WHERE turn > limits.most
