-- What a witness has seen: of each log the largest tree that it cosigned.
CREATE TABLE IF NOT EXISTS logs (
  origin TEXT PRIMARY KEY,
  size INTEGER NOT NULL CHECK (size >= 0),
  note TEXT NOT NULL
) STRICT, WITHOUT ROWID;
