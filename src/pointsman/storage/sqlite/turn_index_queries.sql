-- list_turns: turns, the newest first; found by one index and its condition, then filtered
SELECT at_us, turn_id, decision_id, session_id, model, policy, rule, workspace, digest, gate,
    placement_rule, rejected, is_preview, is_worker, state, served, fallbacks, calls, failed,
    error_class, cost_microusd, input_tokens, output_tokens, elapsed_us
FROM turns INDEXED BY {index} WHERE {condition}
    AND (at_us, decision_id) < (:at, :before)
    AND (:digest IS NULL OR digest = :digest)
    AND (:session IS NULL OR session_id = :session)
    AND (:rule IS NULL OR rule = :rule)
    AND (:state IS NULL OR state = :state)
    AND (:workspace IS NULL OR workspace = :workspace)
    AND (:model IS NULL OR model = :model)
    AND (:policy IS NULL OR policy = :policy)
    AND (:least IS NULL OR cost_microusd >= :least)
    AND (:tenant IS NULL OR tenant = :tenant)
ORDER BY at_us DESC, decision_id DESC LIMIT :most;

-- count_dear: how many turns have at least some cost, up to a number
SELECT count(*) FROM (
    SELECT 1 FROM turns INDEXED BY turns_by_cost
    WHERE cost_microusd >= ? AND cost_microusd > 0 LIMIT ?
);

-- index_costs: rows that were made before there was this index get it, too
CREATE INDEX IF NOT EXISTS turns_by_cost ON turns (cost_microusd) WHERE cost_microusd > 0;

-- add_turn: one turn as it was decided
INSERT INTO turns (
    at_us, turn_id, decision_id, session_id, model, policy, rule, workspace, digest, gate,
    placement_rule, rejected, is_preview, is_worker, state, tenant, served
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- newest_turn: the latest row of a turn, by the turn's own id
SELECT id, at_us, session_id, tenant FROM turns WHERE turn_id = ? ORDER BY id DESC LIMIT 1;

-- add_follower: a further decision about a turn
INSERT INTO followers (decision_id, turn) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- note_fallback: another model took a turn over
UPDATE turns SET fallbacks = fallbacks + 1, served = ?, state = 'fallback' WHERE id = ?;

-- note_override: the user sent a turn elsewhere before its first call
UPDATE turns SET served = ? WHERE id = ?;

-- note_refusal: a call that would have gone on was refused; a later call says what came of the turn
UPDATE turns SET state = 'refused'
WHERE id = (SELECT max(id) FROM turns WHERE turn_id = ?);

-- note_call: how a call of a turn ended, by the decision it acts on. The end of a model's call may
-- be written after the decision that another one takes over: that one says what became of the turn.
UPDATE turns SET calls = calls + 1, failed = failed + :failed,
    error_class = CASE WHEN :error <> '' THEN :error ELSE error_class END,
    state = CASE WHEN :model NOT IN (served, '') THEN state WHEN :ended <> '' THEN :ended
        WHEN fallbacks > 0 THEN 'fallback' ELSE 'done' END,
    cost_microusd = cost_microusd + :cost, input_tokens = input_tokens + :input,
    output_tokens = output_tokens + :output, elapsed_us = elapsed_us + :elapsed,
    first_byte_us = CASE WHEN :ended = '' AND :first > 0 THEN :first ELSE first_byte_us END
WHERE decision_id = :decision RETURNING at_us, session_id, tenant;

-- lead_decision: the first decision about the turn that a further one is about
SELECT t.decision_id FROM followers AS f JOIN turns AS t ON t.id = f.turn WHERE f.decision_id = ?;

-- add_bucket: count turns, fallbacks and costs of one span of time and one model
INSERT INTO buckets (bucket, model, tenant, turns, fallbacks, cost_microusd)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET turns = turns + excluded.turns,
    fallbacks = fallbacks + excluded.fallbacks,
    cost_microusd = cost_microusd + excluded.cost_microusd;

-- add_rule: count what a rule chose, or what it chose in vain
INSERT INTO rules (rule, tenant, hits, rejected, last_us) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET hits = hits + excluded.hits, rejected = rejected + excluded.rejected,
    last_us = max(last_us, excluded.last_us);

-- add_session: what a few turns and calls add to a session
INSERT INTO sessions (
    session_id, first_us, last_us, turns, fallbacks, switches, model, calls, cost_microusd,
    is_worker, tenant
) VALUES (
    :session, :first, :last, :turns, :fallbacks, :switches, :model, :calls, :cost, :worker, :tenant
)
ON CONFLICT DO UPDATE SET
    first_us = min(first_us, excluded.first_us), last_us = max(last_us, excluded.last_us),
    turns = turns + excluded.turns, fallbacks = fallbacks + excluded.fallbacks,
    switches = switches + excluded.switches
        + (:began <> '' AND model <> '' AND model <> :began),
    model = CASE WHEN excluded.model <> '' THEN excluded.model ELSE model END,
    calls = calls + excluded.calls, cost_microusd = cost_microusd + excluded.cost_microusd,
    is_worker = max(is_worker, excluded.is_worker);

-- list_sessions: sessions, the latest first; found as one condition says, then filtered
SELECT session_id, first_us, last_us, turns, fallbacks, switches, model, calls, cost_microusd,
    is_worker
FROM sessions {index} WHERE {condition} AND turns > 0
    AND (:tenant IS NULL OR tenant = :tenant)
    AND (:with_workers OR (
        is_worker = 0 AND NOT EXISTS (SELECT 1 FROM workers WHERE worker = session_id)
    ))
ORDER BY last_us DESC, session_id DESC LIMIT :most;

-- session_models: what the models of one session did
SELECT CASE WHEN served <> '' THEN served ELSE model END AS who, count(*), sum(calls),
    sum(cost_microusd), sum(input_tokens), sum(output_tokens)
FROM turns WHERE session_id = ? AND session_id <> '' AND is_preview = 0 GROUP BY who ORDER BY who;

-- add_worker: a session handed work to another
INSERT INTO workers (parent, worker) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- list_workers: which session handed work to which
SELECT parent, worker FROM workers ORDER BY parent, worker;

-- rule_hits: how often each rule chose
SELECT rule, sum(hits), sum(rejected), max(last_us) FROM rules
WHERE (:tenant IS NULL OR tenant = :tenant) GROUP BY rule ORDER BY rule;

-- buckets_since: counts by span of time and model
SELECT bucket, model, sum(turns), sum(fallbacks), sum(cost_microusd) FROM buckets
WHERE bucket >= :since AND (:tenant IS NULL OR tenant = :tenant)
GROUP BY bucket, model ORDER BY bucket, model;

-- ended_turns: how turns of a span of time went, the newest first
SELECT CASE WHEN served <> '' THEN served ELSE model END, state, fallbacks, elapsed_us,
    first_byte_us, cost_microusd
FROM turns INDEXED BY turns_by_time
WHERE at_us >= :since AND at_us < :end AND is_preview = 0
    AND (:tenant IS NULL OR tenant = :tenant)
ORDER BY at_us DESC, decision_id DESC LIMIT :most;

-- learned_turns: what became of turns that similar turns spoke for, by the model that had them
SELECT CASE WHEN served <> '' THEN served ELSE model END AS who, count(*), sum(state = 'failed'),
    sum(cost_microusd), sum(input_tokens), sum(output_tokens)
FROM turns INDEXED BY turns_by_policy
WHERE policy = 'pattern' AND at_us >= :since AND at_us < :end AND is_preview = 0
    AND (:tenant IS NULL OR tenant = :tenant)
GROUP BY who ORDER BY who;

-- turn_values: the values that a filter can have, the most used first
SELECT what, value, sum(turns) AS counted FROM facets
WHERE (:tenant IS NULL OR tenant = :tenant)
GROUP BY what, value ORDER BY what, counted DESC, value LIMIT 400;

-- add_facet: count turns that have a value
INSERT INTO facets (what, value, tenant, turns) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET turns = turns + excluded.turns;

-- count_turns: how many turns there are
SELECT coalesce(sum(turns), 0) FROM facets
WHERE what = 'policy' AND (:tenant IS NULL OR tenant = :tenant);

-- read_progress: how far each chain was read
SELECT chain, next, hash FROM progress;

-- write_progress: say how far a chain was read
INSERT INTO progress (chain, next, hash) VALUES (?, ?, ?)
ON CONFLICT (chain) DO UPDATE SET next = excluded.next, hash = excluded.hash;

-- forget: begin again
DELETE FROM followers;
DELETE FROM turns;
DELETE FROM buckets;
DELETE FROM rules;
DELETE FROM facets;
DELETE FROM sessions;
DELETE FROM workers;
DELETE FROM progress;
