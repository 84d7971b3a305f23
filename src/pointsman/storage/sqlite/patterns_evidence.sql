-- What the method `evidence` keeps beside the patterns. Made when a store is opened: stores that were
-- begun without it get it then.

CREATE TABLE IF NOT EXISTS tokens (
    fingerprint TEXT NOT NULL PRIMARY KEY REFERENCES fingerprints (id) ON DELETE CASCADE,
    vector BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS origins (
    turn TEXT NOT NULL PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    origin TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS calibrations (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;
