-- The health of the providers, in one row: every process of the home reads and writes it.
CREATE TABLE IF NOT EXISTS health (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  body BLOB NOT NULL
) STRICT;
