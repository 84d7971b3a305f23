-- Semantic memory: every version of every key, and by which request it came to be.

CREATE TABLE versions (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    value BLOB,
    request_id TEXT NOT NULL UNIQUE,
    entry TEXT NOT NULL,
    action_hash TEXT NOT NULL,
    requested_by TEXT NOT NULL,
    approved_by TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    PRIMARY KEY (namespace, key, version)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER versions_stay BEFORE UPDATE ON versions
BEGIN SELECT RAISE(ABORT, 'a version of semantic memory is never changed'); END;

CREATE TRIGGER versions_last BEFORE DELETE ON versions
BEGIN SELECT RAISE(ABORT, 'a version of semantic memory is never removed'); END;
