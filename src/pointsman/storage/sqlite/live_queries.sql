-- list_gateways: who serves
SELECT process, gateway, lease FROM gateways;

-- add_gateway: one more serves
INSERT INTO gateways (process, gateway, lease) VALUES (?, ?, ?);

-- drop_gateway: one serves no more
DELETE FROM gateways WHERE process = ?;

-- read_marks: how often each kind was changed
SELECT name, number FROM marks;

-- mark: a kind was changed
INSERT INTO marks (name, number) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET number = number + 1;

-- find_turn: the turn that a session goes on with
SELECT turn_id, decision_id, model, calls, is_escalated, is_stored FROM turns WHERE session_id = ?;

-- hold_turn: bind a session's turn to a model
INSERT INTO turns (session_id, turn_id, decision_id, model, calls, is_escalated, is_stored, at_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET
    turn_id = excluded.turn_id, decision_id = excluded.decision_id, model = excluded.model,
    calls = excluded.calls, is_escalated = excluded.is_escalated, is_stored = excluded.is_stored,
    at_us = excluded.at_us;

-- forget_turns: those that were not continued for long
DELETE FROM turns WHERE at_us < ?;

-- add_taint: a session stays here, or no more
INSERT INTO taints (session_id, body, at_us) VALUES (?, ?, ?);

-- taints_after: what was added since
SELECT number, session_id, body FROM taints WHERE number > ? ORDER BY number;

-- forget_taints: those that all have read
DELETE FROM taints WHERE at_us < ? AND number < (SELECT max(number) FROM taints);

-- read_buckets: what is left of each limit
SELECT name, per_minute, level, at_us FROM buckets;

-- read_bucket: what is left of one limit
SELECT per_minute, level, at_us FROM buckets WHERE name = ?;

-- write_bucket: keep what is left of a limit
INSERT INTO buckets (name, per_minute, level, at_us) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
    per_minute = excluded.per_minute, level = excluded.level, at_us = excluded.at_us;

-- add_login: someone is logged in
INSERT INTO logins (digest, gateway, key_id, expires_at) VALUES (?, ?, ?, ?);

-- find_login: a login by its digest
SELECT key_id, expires_at FROM logins WHERE digest = ? AND gateway = ?;

-- drop_login: it is over
DELETE FROM logins WHERE digest = ?;

-- trim_logins: those that are over, and the oldest beyond a number
DELETE FROM logins WHERE expires_at <= ?1 OR digest IN (
    SELECT digest FROM logins WHERE gateway = ?2 ORDER BY expires_at DESC LIMIT -1 OFFSET ?3
);

-- write_counts: what a worker has counted
INSERT INTO counts (process, gateway, body) VALUES (?, ?, ?)
ON CONFLICT (process) DO UPDATE SET body = excluded.body;

-- read_counts: what the workers of a gateway have counted
SELECT process, body FROM counts WHERE gateway = ?;

-- forget_counts: those of gateways that are gone
DELETE FROM counts WHERE gateway NOT IN (SELECT gateway FROM gateways);

-- forget_logins: likewise
DELETE FROM logins WHERE gateway NOT IN (SELECT gateway FROM gateways);

-- clear_turns: no one is left who knew of them
DELETE FROM turns;

-- clear_buckets: likewise
DELETE FROM buckets;

-- clear_taints: likewise
DELETE FROM taints;
