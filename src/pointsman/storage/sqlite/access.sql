-- Virtual keys and the admin token, by digest: no secret is in here.

CREATE TABLE keys (
    id TEXT NOT NULL PRIMARY KEY,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    body BLOB NOT NULL,
    revoked_at INTEGER,
    last_used_at INTEGER,
    changed INTEGER NOT NULL
) STRICT;

CREATE INDEX keys_by_change ON keys (changed);

CREATE TABLE admin (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;
