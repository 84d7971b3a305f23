-- Virtual keys and the admin token, by digest: no secret is in here.
CREATE SCHEMA pointsman_access;

CREATE TABLE pointsman_access.keys (
    number BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    digest BYTEA NOT NULL CHECK (length(digest) = 32),
    body BYTEA NOT NULL,
    revoked_at BIGINT,
    last_used_at BIGINT,
    changed BIGINT NOT NULL
);

CREATE INDEX keys_by_change ON pointsman_access.keys (changed);

CREATE TABLE pointsman_access.admin (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    digest BYTEA NOT NULL CHECK (length(digest) = 32)
);
