-- begin: a session begins
INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL);

-- stick: bind a session to a model, or to none
UPDATE session SET sticky_model = ?, changed_at = ? WHERE id = ?;

-- end: a session is closed, or opened again
UPDATE session SET ended_at = ?, changed_at = ? WHERE id = ?;

-- begin_turn: a turn begins
INSERT INTO turn VALUES (?, ?, ?, ?, 'open', ?, NULL, 0, 0, '', ?, ?, NULL, 0, 0, 0);

-- end_turn: a turn ended
UPDATE turn SET status = ?, model = ?, decision_id = ?, ended_at = ?, cost_microusd = ?,
    latency_ms = ?, pricing_version = ? WHERE id = ?;

-- touch: a session had a turn
UPDATE session SET changed_at = ? WHERE id = ?;

-- score: what somebody thinks of a turn; what was said counts for more than what was done
UPDATE turn SET score = ?, score_confidence = ?, is_score_explicit = ?
WHERE id = ? AND is_score_explicit <= ?;

-- learned: a turn is in the pattern store
UPDATE turn SET is_learned = 1 WHERE id = ?;

-- keep: a message
INSERT INTO message (id, session_id, turn_id, role, metadata, created_at, schema_version, kept, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- erase: forget the words of a session
UPDATE message SET kept = 'erased', content = x''
WHERE session_id = ? AND kept <> 'erased';

-- erase_turn: forget the words of a turn
UPDATE message SET kept = 'erased', content = x''
WHERE turn_id = ? AND kept <> 'erased';

-- forget_looks: forget what a session's turns looked like; none of them is learned from any more
UPDATE turn SET fingerprint = x'', vector = x'', is_learned = 1 WHERE session_id = ?;

-- forget_look: the same for one turn
UPDATE turn SET fingerprint = x'', vector = x'', is_learned = 1 WHERE id = ?;

-- session: one session
SELECT id, parent_session_id, parent_tool_use_id, workspace, privacy, sticky_model, started_at,
    changed_at, ended_at FROM session WHERE id = ?;

-- sessions: the sessions of users, the newest first
SELECT id, parent_session_id, parent_tool_use_id, workspace, privacy, sticky_model, started_at,
    changed_at, ended_at FROM session WHERE parent_session_id = '' ORDER BY changed_at DESC, id DESC LIMIT ?;

-- workers: the workers of a session, in their order
SELECT id, parent_session_id, parent_tool_use_id, workspace, privacy, sticky_model, started_at,
    changed_at, ended_at FROM session WHERE parent_session_id = ? AND parent_session_id <> '' ORDER BY id;

-- turns: the turns of a session, in their order
SELECT id, session_id, decision_id, model, status, started_at, ended_at, cost_microusd, latency_ms,
    pricing_version, fingerprint, vector, score, is_score_explicit, score_confidence, is_learned
FROM turn WHERE session_id = ? ORDER BY id;

-- turn: one turn
SELECT id, session_id, decision_id, model, status, started_at, ended_at, cost_microusd, latency_ms,
    pricing_version, fingerprint, vector, score, is_score_explicit, score_confidence, is_learned
FROM turn WHERE id = ?;

-- messages: the messages of a session, in their order
SELECT id, session_id, turn_id, role, metadata, created_at, schema_version, kept, content
FROM message WHERE session_id = ? ORDER BY number;
