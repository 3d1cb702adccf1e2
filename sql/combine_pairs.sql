-- By what the pairs of a shard are compared and drawn: reads pairs(query_id, intent, query), in their order.
-- Queries with one hash have the same words under one intent, in whichever Unicode form they were typed. The lowest hashes
-- of an id stay in a sample, so that a refresh hardly changes it.
SELECT
    md5_number_lower(intent || e'\n' || trim(regexp_replace(lower(nfc_normalize(query)), '[\s\v]+', ' ', 'g'))) AS words,
    CAST('0x' || left(md5(query_id), 16) AS UBIGINT) AS turn
FROM pairs
