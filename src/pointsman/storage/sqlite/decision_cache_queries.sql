-- find: an answer by its key
SELECT decision_id, stored_at, expires_at, body, seal FROM answer WHERE key = ?;

-- touch: note that an answer was given again
UPDATE answer SET used = (SELECT coalesce(max(used), 0) + 1 FROM answer) WHERE key = ?;

-- keep: keep an answer, in place of an older one
INSERT INTO answer (key, decision_id, stored_at, expires_at, used, body, seal)
VALUES (?1, ?2, ?3, ?4, (SELECT coalesce(max(used), 0) + 1 FROM answer), ?5, ?6)
ON CONFLICT (key) DO UPDATE SET decision_id = excluded.decision_id,
    stored_at = excluded.stored_at, expires_at = excluded.expires_at, used = excluded.used,
    body = excluded.body, seal = excluded.seal;

-- forget: one answer
DELETE FROM answer WHERE key = ?;

-- forget_decision: the answers of one decision
DELETE FROM answer WHERE decision_id = ?;

-- forget_all: everything
DELETE FROM answer;

-- forget_expired: what may not be given any more
DELETE FROM answer WHERE expires_at <= ?;

-- forget_oldest: those used longest ago, beyond how many there may be
DELETE FROM answer WHERE key IN (SELECT key FROM answer ORDER BY used DESC LIMIT -1 OFFSET ?);

-- counted: how many answers each decision has, and how many of them have expired
SELECT decision_id, count(*), sum(expires_at <= ?) FROM answer
GROUP BY decision_id ORDER BY decision_id;
