-- What the gateways of a home must know of each other at once. Nothing here outlives them: the ledger and the
-- stores beside it hold what lasts.

-- Who serves; a row whose lease is free belongs to a process that was killed. Workers of one gateway share its name.
CREATE TABLE gateways (
    process TEXT NOT NULL PRIMARY KEY,
    gateway TEXT NOT NULL,
    lease TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How often each kind of thing was changed: one look tells which of them is to be read anew.
CREATE TABLE marks (
    name TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The model that a session's turn is bound to while it goes on.
CREATE TABLE turns (
    session_id TEXT NOT NULL PRIMARY KEY,
    turn_id TEXT NOT NULL,
    decision_id TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    is_escalated INTEGER NOT NULL,
    is_stored INTEGER NOT NULL,
    at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX turns_by_time ON turns (at_us);

-- Sessions that must stay on this machine from now on, or no more: until all have read them in the ledger.
CREATE TABLE taints (
    number INTEGER NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL,
    body BLOB NOT NULL,
    at_us INTEGER NOT NULL
) STRICT;

-- What is left of the limits a minute of providers.
CREATE TABLE buckets (
    name TEXT NOT NULL PRIMARY KEY,
    per_minute INTEGER NOT NULL,
    level INTEGER NOT NULL,
    at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who is logged in at the workers of one gateway; digests, never the halves.
CREATE TABLE logins (
    digest BLOB NOT NULL PRIMARY KEY,
    gateway TEXT NOT NULL,
    key_id TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What each worker of a gateway has counted; those of killed ones stay, or sums would go back.
CREATE TABLE counts (
    process TEXT NOT NULL PRIMARY KEY,
    gateway TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
