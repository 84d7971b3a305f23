-- pin: bind a session to a model until it is unpinned
INSERT INTO session (id, pinned_model, changed_at) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET pinned_model = excluded.pinned_model, changed_at = excluded.changed_at;

-- lock: remember the model of a turn that waits for a tool
INSERT INTO session (id, turn_id, decision_id, locked_model, changed_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET turn_id = excluded.turn_id, decision_id = excluded.decision_id,
    locked_model = excluded.locked_model, changed_at = excluded.changed_at;

-- find: what is kept of a session
SELECT pinned_model, turn_id, decision_id, locked_model FROM session WHERE id = ?;

-- pinned: every session that has a pin
SELECT id, pinned_model, changed_at FROM session WHERE pinned_model IS NOT NULL ORDER BY id;

-- forget: what was not touched for long and has no pin
DELETE FROM session WHERE changed_at < ? AND pinned_model IS NULL;
