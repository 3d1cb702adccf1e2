-- Which pairs do not enter mtp, and why. Reads pairs(query_id, query, intent, origin, place) and caps(origin, most).
-- Of queries with the same words under one intent the first place stays; of an origin with a cap, the lowest hashes stay,
-- so that a refresh hardly changes the sample.
WITH same AS (
    SELECT
        *,
        first_value(query_id) OVER (
            PARTITION BY intent, regexp_replace(trim(lower(query), E' \t\n\r\f\v'), '\s+', ' ', 'g') ORDER BY place
        ) AS first_id
    FROM pairs
),
sampled AS (
    SELECT
        query_id,
        caps.most,
        row_number() OVER (PARTITION BY same.origin ORDER BY md5(query_id), query_id) AS turn
    FROM same JOIN caps ON same.origin = caps.origin
    WHERE query_id = first_id
)
SELECT query_id, 'duplicate_query' AS reason, 'of ' || first_id || ': ' || query AS detail
FROM same
WHERE query_id <> first_id
UNION ALL
SELECT query_id, 'over_cap', 'beyond ' || most || ' pairs of its origin, by the hash of its id'
FROM sampled
WHERE turn > most
