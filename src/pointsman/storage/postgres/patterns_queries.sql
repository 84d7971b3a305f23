-- prepare: what every connection needs; here nothing
SELECT 1;

-- version: a number that changes whenever somebody has written
SELECT number FROM changes;

-- numbered_from: since which version it is known what was changed
SELECT numbered_from FROM changes;

-- changed_since: the fingerprints that were changed after a version, and whether they are gone
SELECT fingerprint, is_gone FROM changed WHERE number > ? ORDER BY number;

-- has_vectors: whether the database itself can compare vectors
SELECT to_regclass('looks') IS NOT NULL;

-- add_fingerprint: what a turn looked like, once more
INSERT INTO fingerprints (id, body, vector, samples, updated_us) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    samples = fingerprints.samples + excluded.samples,
    updated_us = greatest(fingerprints.updated_us, excluded.updated_us);

-- add_outcome: add to the sums of one model
INSERT INTO outcomes (
    fingerprint, model, samples, score_sum, score_count, cost_microusd, latency_ms,
    pricing_version, updated_us
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (fingerprint, model) DO UPDATE SET
    samples = outcomes.samples + excluded.samples,
    score_sum = outcomes.score_sum + excluded.score_sum,
    score_count = outcomes.score_count + excluded.score_count,
    cost_microusd = outcomes.cost_microusd + excluded.cost_microusd,
    latency_ms = outcomes.latency_ms + excluded.latency_ms,
    pricing_version = excluded.pricing_version,
    updated_us = greatest(outcomes.updated_us, excluded.updated_us);

-- fingerprints_of: the same for the fingerprints of a JSON list
SELECT id, body, vector FROM fingerprints
WHERE id IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb))) ORDER BY id;

-- outcomes_of: how each model did on the fingerprints of a JSON list
SELECT fingerprint, model, samples, score_sum, score_count, cost_microusd, latency_ms,
    pricing_version, updated_us
FROM outcomes WHERE fingerprint IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb)))
ORDER BY fingerprint, model;

-- list_fingerprints: the newest first
SELECT f.id, f.body, length(f.vector) > 0, f.samples, f.updated_us,
    coalesce(string_agg(o.model, ' '), '')
FROM fingerprints AS f LEFT JOIN outcomes AS o ON o.fingerprint = f.id
GROUP BY f.id ORDER BY f.updated_us DESC, f.id LIMIT ?;

-- per_model: the sums of every model over all fingerprints
SELECT model, count(*), CAST(sum(samples) AS BIGINT), CAST(sum(score_sum) AS BIGINT),
    CAST(sum(score_count) AS BIGINT), CAST(sum(cost_microusd) AS BIGINT)
FROM outcomes GROUP BY model ORDER BY model;

-- looks_of: the same for the fingerprints of a JSON list
SELECT f.id, f.body, f.vector, coalesce(t.vector, '')
FROM fingerprints AS f LEFT JOIN tokens AS t ON t.fingerprint = f.id
WHERE f.id IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb))) ORDER BY f.id;

-- some_outcomes: the same for the fingerprints of a JSON list
SELECT fingerprint, model, samples, score_sum, score_count, cost_microusd
FROM outcomes WHERE fingerprint IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb)));
