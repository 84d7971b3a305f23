-- What a session keeps across restarts: its pin, and the lock of a turn that waits for a tool.
CREATE SCHEMA pointsman_sessions;

CREATE TABLE pointsman_sessions.session (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    pinned_model TEXT,
    turn_id TEXT,
    decision_id TEXT,
    locked_model TEXT,
    changed_at BIGINT NOT NULL
);

CREATE INDEX session_pinned ON pointsman_sessions.session (id) WHERE pinned_model IS NOT NULL;
