-- Sessions, their turns and their messages. The words can be erased; the ledger holds digests only.
CREATE TABLE IF NOT EXISTS session (
  id TEXT PRIMARY KEY,
  parent_session_id TEXT NOT NULL,
  parent_tool_use_id TEXT NOT NULL,
  workspace TEXT,
  privacy TEXT NOT NULL,
  sticky_model TEXT,
  started_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_parent ON session (parent_session_id, id);

CREATE TABLE IF NOT EXISTS turn (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  decision_id TEXT NOT NULL,
  model TEXT NOT NULL,
  status TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  cost_microusd INTEGER NOT NULL,
  latency_ms INTEGER NOT NULL,
  pricing_version TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  vector BLOB NOT NULL,
  score INTEGER,
  is_score_explicit INTEGER NOT NULL,
  score_confidence INTEGER NOT NULL,
  is_learned INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS turn_session ON turn (session_id, id);

CREATE TABLE IF NOT EXISTS message (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  role TEXT NOT NULL,
  metadata BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  schema_version INTEGER NOT NULL,
  kept TEXT NOT NULL CHECK (kept IN ('full', 'redacted', 'digest', 'erased')),
  content BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS message_session ON message (session_id, number);
