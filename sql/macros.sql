-- A version named by its id, by DATASET@ID, or by DATASET or DATASET@latest for the latest; no row where there is none.
CREATE MACRO version_named(asked) AS TABLE
SELECT v.dataset, v.version FROM versions v
WHERE asked IN (v.version, v.dataset || '@' || v.version) OR (v.is_latest AND asked IN (v.dataset, v.dataset || '@latest'));

-- What the version named so was made from, all the way down; depth 1 is a direct source.
CREATE MACRO ancestors_of(asked) AS TABLE
WITH RECURSIVE walk AS (
    SELECT n.dataset AS d, n.version AS i, 0 AS depth FROM version_named(asked) n
    UNION
    SELECT m.source_dataset, m.source_version, w.depth + 1 FROM walk w JOIN made_from m ON m.dataset = w.d AND m.version = w.i
)
SELECT d AS dataset, i AS version, min(depth) AS depth FROM walk WHERE depth > 0 GROUP BY ALL;

-- Tokens and dollars behind the version named so; no row where there is none.
-- Counted: every answer that a row of the version or of any of its ancestors names as a response_id, or that a receipt of
-- its parts names: what embeddings were bought with, and answers that were refused or asked for again. Once each, also
-- where that row was removed or refused later.
CREATE MACRO cost_of(asked) AS TABLE
WITH family AS (
    SELECT n.dataset AS d, n.version AS i FROM version_named(asked) n
    UNION
    SELECT a.dataset, a.version FROM ancestors_of(asked) a
),
answers AS (
    SELECT DISTINCT r.response_id
    FROM family JOIN parts p ON p.dataset = d AND p.version = i AND p.kind = 'part' JOIN part_responses r USING (sha256)
)
SELECT count(*) AS n_responses, count(*) - count(c.response_id) AS n_unknown,
    coalesce(sum(c.prompt_tokens), 0)::BIGINT AS prompt_tokens,
    coalesce(sum(c.completion_tokens), 0)::BIGINT AS completion_tokens, coalesce(sum(c.cost_usd), 0) AS cost_usd
FROM answers LEFT JOIN llm_calls c USING (response_id)
HAVING EXISTS (FROM family);

-- What a pair that is trained on cost, by intent, over the latest needs, mtp/dm and mtp: answers behind all needs and pairs
-- of an intent, also those that a step refused, over the pairs that stayed. Answers that no row names, since they were
-- refused or asked for again, are shared among the intents as their answers are; of parts that were made before receipts
-- named such answers, each is taken to be the mean of its intent's.
CREATE MACRO cost_by_intent() AS TABLE
WITH written AS (
    SELECT dataset, intent, response_id FROM all_needs WHERE dataset = 'needs'
    UNION ALL
    SELECT dataset, intent, response_id FROM all_pairs WHERE dataset = 'mtp/dm'
),
named AS (
    SELECT w.dataset, w.intent, count(*) AS n, sum(c.cost_usd) AS usd
    FROM written w LEFT JOIN llm_calls c USING (response_id)
    GROUP BY ALL
),
refused AS (
    SELECT r.dataset, split_part(r.detail, ':', 1) AS intent, count(*) AS n
    FROM rejects r JOIN versions v USING (dataset, version)
    WHERE v.is_latest AND r.dataset IN ('needs', 'mtp/dm') AND NOT starts_with(r.reason, 'llm_')
    GROUP BY ALL
),
bought AS (
    SELECT DISTINCT v.dataset, r.response_id
    FROM versions v JOIN parts p USING (dataset, version) JOIN part_responses r USING (sha256)
    WHERE v.is_latest AND p.kind = 'part' AND v.dataset IN ('needs', 'mtp/dm')
),
unnamed AS (
    SELECT b.dataset, sum(c.cost_usd) AS usd
    FROM bought b ANTI JOIN written w USING (response_id) JOIN llm_calls c USING (response_id)
    GROUP BY b.dataset
),
answered AS (
    SELECT dataset, intent, coalesce(named.n, 0) + coalesce(refused.n, 0) AS n_answers, coalesce(named.usd, 0) AS named_usd,
        coalesce(refused.n * named.usd / named.n, 0) AS refused_usd
    FROM named FULL JOIN refused USING (dataset, intent)
),
shared AS (
    SELECT a.intent, a.n_answers, a.named_usd
        + coalesce(u.usd * a.n_answers / sum(a.n_answers) OVER (PARTITION BY a.dataset), a.refused_usd) AS cost_usd
    FROM answered a LEFT JOIN unnamed u USING (dataset)
),
stayed AS (SELECT intent, count(*) AS n FROM all_pairs WHERE dataset = 'mtp' AND response_id <> '' GROUP BY intent)
SELECT intent, sum(n_answers)::BIGINT AS n_answers, coalesce(any_value(stayed.n), 0) AS n_pairs,
    sum(shared.cost_usd) AS cost_usd, sum(shared.cost_usd) / nullif(any_value(stayed.n), 0) AS usd_per_pair
FROM shared LEFT JOIN stayed USING (intent)
GROUP BY intent ORDER BY intent;

-- One row: a query's whole story. Lists of structs: rankings, votes, rejections, builds.
CREATE MACRO trace_query(id) AS TABLE
WITH pair AS (SELECT DISTINCT ON (query_id) * FROM all_pairs WHERE query_id = id ORDER BY dataset),
need AS (SELECT DISTINCT ON (need_id) * FROM all_needs WHERE need_id IN (SELECT need_id FROM pair)),
place AS (
    SELECT DISTINCT ON (a.passage_id) a.* FROM all_passages a JOIN pair p USING (passage_id)
    ORDER BY a."text" IS NOT DISTINCT FROM p.passage DESC, a.doc_id IS NOT DISTINCT FROM p.doc_id DESC, a.dataset
),
document AS (
    SELECT DISTINCT ON (doc_id) doc_id, url, title FROM all_documents WHERE doc_id IN (SELECT doc_id FROM pair)
),
label AS (SELECT DISTINCT ON (query_id) * FROM all_labelled WHERE query_id = id),
target AS (
    SELECT coalesce((SELECT positive_id FROM label), (SELECT positive_id FROM pair)) AS positive_id
),
ranked AS (
    SELECT list({'model': split_part(dataset, '/', -1), 'top_ids': passage_ids[:3], 'top_scores': scores[:3],
        'positive_rank': list_position(passage_ids, positive_id),
        'positive_score': scores[list_position(passage_ids, positive_id)]} ORDER BY dataset) AS rankings
    FROM all_rankings, target WHERE query_id = id
),
refused AS (
    SELECT list({'step': r.step, 'dataset': r.dataset, 'reason': r.reason, 'detail': r.detail} ORDER BY r.step) AS rejections
    FROM rejects r JOIN versions v USING (dataset, version) WHERE v.is_latest AND r.row_id = id
),
built AS (
    SELECT list({'dataset': dataset, 'mining_model': mining_model, 'positive_score': positive_score,
        'negative_ids': negative_ids, 'negatives': negatives, 'negative_scores': negative_scores} ORDER BY dataset) AS builds
    FROM all_triplets WHERE query_id = id
)
SELECT p.query_id, p.query, p.intent, p.origin, p.split, p.positive AS written_positive, p.need_id, n.need, p.passage_id,
    p.passage, a.page, p.doc_id, coalesce(d.title, a.title) AS title, coalesce(d.url, a.url) AS url,
    p.need_response_id, nc.model AS need_model, nc.prompt_tokens AS need_prompt_tokens,
    nc.completion_tokens AS need_completion_tokens, nc.cost_usd AS need_cost_usd,
    p.response_id, pc.model AS pair_model, pc.prompt_tokens AS pair_prompt_tokens,
    pc.completion_tokens AS pair_completion_tokens, pc.cost_usd AS pair_cost_usd,
    l.query_id IS NOT NULL AS is_labelled, l.positive_id AS agreed_positive_id, l.positive AS agreed_positive, l.best_model,
    l.votes, rankings, rejections, builds
FROM pair p
LEFT JOIN need n USING (need_id)
LEFT JOIN place a ON a.passage_id = p.passage_id
LEFT JOIN document d ON d.doc_id = p.doc_id
LEFT JOIN label l ON l.query_id = p.query_id
LEFT JOIN llm_calls nc ON nc.response_id = p.need_response_id
LEFT JOIN llm_calls pc ON pc.response_id = p.response_id
CROSS JOIN ranked CROSS JOIN refused CROSS JOIN built;

-- One row for each passage of that id, which is one unless corpora give an id to different passages: where it comes from,
-- the datasets that have it, and what was made of it. source: pdf, or llm for a positive that the LLM wrote. Needs, queries
-- and builds name a passage by its id alone, so each of several has all of them.
CREATE MACRO trace_passage(id) AS TABLE
WITH of_corpora AS (
    SELECT 'pdf' AS source, dataset, passage_id, doc_id, page, url, title, "text" FROM all_passages WHERE passage_id = id
),
here AS (
    SELECT source, passage_id, doc_id, "text", any_value(page) AS page, any_value(url) AS url, any_value(title) AS title,
        list(DISTINCT dataset ORDER BY dataset) AS datasets
    FROM (
        FROM of_corpora
        UNION ALL
        SELECT 'llm', dataset, positive_id, doc_id, NULL, NULL, NULL, positive FROM all_pairs
        WHERE positive_id = id AND NOT EXISTS (FROM of_corpora)
    ) GROUP BY source, passage_id, doc_id, "text"
),
document AS (
    SELECT DISTINCT ON (doc_id) doc_id, url, title FROM all_documents WHERE doc_id IN (SELECT doc_id FROM here)
),
asked AS (SELECT list({'need_id': need_id, 'intent': intent, 'need': need} ORDER BY need_id) AS needs
    FROM (SELECT DISTINCT ON (need_id) * FROM all_needs WHERE passage_id = id)),
written AS (SELECT list({'query_id': query_id, 'intent': intent, 'query': query} ORDER BY query_id) AS queries
    FROM (SELECT DISTINCT ON (query_id) * FROM all_pairs WHERE passage_id = id OR positive_id = id)),
agreed AS (SELECT list({'dataset': dataset, 'query_id': query_id} ORDER BY dataset, query_id) AS positive_of
    FROM all_triplets WHERE positive_id = id),
mined AS (SELECT list({'dataset': dataset, 'query_id': query_id,
        'score': negative_scores[list_position(negative_ids, id)]} ORDER BY dataset, query_id) AS negative_of
    FROM all_triplets WHERE list_contains(negative_ids, id))
SELECT h.passage_id, h.source, h.datasets, h."text", h.page, h.doc_id, coalesce(h.title, d.title) AS title,
    coalesce(h.url, d.url) AS url, needs, queries, positive_of, negative_of
FROM here h LEFT JOIN document d USING (doc_id)
CROSS JOIN asked CROSS JOIN written CROSS JOIN agreed CROSS JOIN mined
ORDER BY h.datasets, h.doc_id, h."text";
