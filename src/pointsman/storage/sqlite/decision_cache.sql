-- Answers of decisions that may be given again; losing all of it costs nothing but time.
CREATE TABLE IF NOT EXISTS answer (
  key BLOB PRIMARY KEY,
  decision_id TEXT NOT NULL,
  stored_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used INTEGER NOT NULL,
  body BLOB NOT NULL,
  seal BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answer_decision ON answer (decision_id);
CREATE INDEX IF NOT EXISTS answer_used ON answer (used);
