-- What a session keeps across restarts: its pin, and the lock of a turn that waits for a tool.
CREATE TABLE IF NOT EXISTS session (
  id TEXT PRIMARY KEY,
  pinned_model TEXT,
  turn_id TEXT,
  decision_id TEXT,
  locked_model TEXT,
  changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
