-- prepare: what every connection needs; stores that were begun without `evidence` get its tables
PRAGMA foreign_keys = 1;

CREATE TABLE IF NOT EXISTS tokens (
    fingerprint TEXT NOT NULL PRIMARY KEY REFERENCES fingerprints (id) ON DELETE CASCADE,
    vector BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS origins (
    turn TEXT NOT NULL PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    origin TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS calibrations (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- version: a number that changes whenever another process has written
PRAGMA data_version;

-- numbered_from: since which version it is known what was changed; here never
SELECT 9223372036854775807;

-- changed_since: the fingerprints that were changed after a version, and whether they are gone
SELECT id, 0 FROM fingerprints WHERE ? < 0;

-- has_vectors: whether the database itself can compare vectors
SELECT 0;

-- add_fingerprint: what a turn looked like, once more
INSERT INTO fingerprints (id, body, vector, samples, updated_us) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    samples = fingerprints.samples + excluded.samples,
    updated_us = max(fingerprints.updated_us, excluded.updated_us);

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
    updated_us = max(outcomes.updated_us, excluded.updated_us);

-- add_turn: remember where a turn was counted, so that its score can find it
INSERT INTO turns (id, fingerprint, model, at_us) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- add_eval: remember a verdict, unless it is known
INSERT INTO evals (id, turn) VALUES (?, ?) ON CONFLICT (id) DO NOTHING;

-- add_import: remember an imported row, unless it is known
INSERT INTO imports (id, fingerprint) VALUES (?, ?) ON CONFLICT (id) DO NOTHING;

-- is_known: whether there is such a fingerprint
SELECT 1 FROM fingerprints WHERE id = ?;

-- is_imported: whether a row was imported before
SELECT 1 FROM imports WHERE id = ?;

-- find_turn: where a turn was counted, and its score so far
SELECT fingerprint, model, score FROM turns WHERE id = ?;

-- outcome_samples: the samples of one model on one fingerprint
SELECT samples FROM outcomes WHERE fingerprint = ? AND model = ?;

-- set_turn_score: the score that now counts for a turn
UPDATE turns SET score = ? WHERE id = ?;

-- move_score: take an old score out of the sums and put a new one in
UPDATE outcomes SET score_sum = score_sum + ?, score_count = score_count + ?
WHERE fingerprint = ? AND model = ?;

-- all_fingerprints: everything that is compared
SELECT id, body, vector FROM fingerprints ORDER BY id;

-- fingerprints_of: the same for the fingerprints of a JSON list
SELECT id, body, vector FROM fingerprints WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id;

-- outcomes_of: how each model did on the fingerprints of a JSON list
SELECT fingerprint, model, samples, score_sum, score_count, cost_microusd, latency_ms,
    pricing_version, updated_us
FROM outcomes WHERE fingerprint IN (SELECT value FROM json_each(?)) ORDER BY fingerprint, model;

-- list_fingerprints: the newest first
SELECT f.id, f.body, length(f.vector) > 0, f.samples, f.updated_us, group_concat(o.model, ' ')
FROM fingerprints AS f LEFT JOIN outcomes AS o ON o.fingerprint = f.id
GROUP BY f.id ORDER BY f.updated_us DESC, f.id LIMIT ?;

-- fingerprints_like: those whose id begins so
SELECT id, body, length(vector) > 0, samples, updated_us, ''
FROM fingerprints WHERE id >= ? AND id < ? ORDER BY id LIMIT 2;

-- has_fingerprints: whether there is any
SELECT EXISTS (SELECT 1 FROM fingerprints);

-- count_fingerprints: how many there are
SELECT count(*) FROM fingerprints;

-- count_outcomes: how many rows of outcomes there are
SELECT count(*) FROM outcomes;

-- aged: fingerprints that were last seen before an instant
SELECT id, updated_us FROM fingerprints WHERE updated_us < ? ORDER BY updated_us, samples, id;

-- oldest: the fingerprints to give up first
SELECT id, updated_us FROM fingerprints ORDER BY updated_us, samples, id LIMIT ?;

-- delete_fingerprint: forget a fingerprint with all that was counted for it
DELETE FROM fingerprints WHERE id = ?;

-- delete_turns: forget where old turns were counted; their sums stay
DELETE FROM turns WHERE at_us < ?;

-- per_model: the sums of every model over all fingerprints
SELECT model, count(*), sum(samples), sum(score_sum), sum(score_count), sum(cost_microusd)
FROM outcomes GROUP BY model ORDER BY model;

-- add_tokens: the token vector of a look, once for each maker: the newest one's stays
INSERT INTO tokens (fingerprint, vector) VALUES (?, ?)
ON CONFLICT (fingerprint) DO UPDATE SET vector = excluded.vector
WHERE substr(tokens.vector, 129) <> substr(excluded.vector, 129);

-- without_tokens: turns whose look has no tokens of a maker, the newest of a look first
SELECT n.fingerprint, n.id
FROM turns AS n LEFT JOIN tokens AS t ON t.fingerprint = n.fingerprint
WHERE t.vector IS NULL OR substr(t.vector, 129) <> ? ORDER BY n.fingerprint, n.at_us DESC, n.id;

-- count_without_tokens: looks with letters, but no tokens of a maker
SELECT count(*) FROM fingerprints AS f LEFT JOIN tokens AS t ON t.fingerprint = f.id
WHERE length(f.vector) > 0 AND (t.vector IS NULL OR substr(t.vector, 129) <> ?);

-- letters_of: the letters of a look
SELECT vector FROM fingerprints WHERE id = ?;

-- touch_fingerprint: let others see that something about a look is new
UPDATE fingerprints SET samples = samples WHERE id = ?;

-- add_origin: a turn that was not served as the policy says
INSERT INTO origins (turn, origin) VALUES (?, ?) ON CONFLICT (turn) DO NOTHING;

-- all_names: the names of all looks
SELECT id FROM fingerprints;

-- all_looks: everything the method `evidence` compares
SELECT f.id, f.body, f.vector, coalesce(t.vector, x'')
FROM fingerprints AS f LEFT JOIN tokens AS t ON t.fingerprint = f.id ORDER BY f.id;

-- looks_of: the same for the fingerprints of a JSON list
SELECT f.id, f.body, f.vector, coalesce(t.vector, x'')
FROM fingerprints AS f LEFT JOIN tokens AS t ON t.fingerprint = f.id
WHERE f.id IN (SELECT value FROM json_each(?)) ORDER BY f.id;

-- all_outcomes: what every model did on every look
SELECT fingerprint, model, samples, score_sum, score_count, cost_microusd FROM outcomes;

-- some_outcomes: the same for the fingerprints of a JSON list
SELECT fingerprint, model, samples, score_sum, score_count, cost_microusd
FROM outcomes WHERE fingerprint IN (SELECT value FROM json_each(?));

-- add_calibration: the newest calibration
INSERT INTO calibrations (id, body) VALUES (?, ?);

-- newest_calibration: the one that holds, of those whose id begins as their maker's do
SELECT id, body FROM calibrations WHERE id LIKE ? ORDER BY number DESC LIMIT 1;

-- explored_since: how many turns of each model were explored since an instant
SELECT turns.model, count(*) FROM origins JOIN turns ON turns.id = origins.turn
WHERE origins.origin = 'explored' AND turns.at_us >= ? GROUP BY turns.model ORDER BY turns.model;

-- count_origins: how many turns were not served as the policy says
SELECT origin, count(*) FROM origins GROUP BY origin ORDER BY origin;
