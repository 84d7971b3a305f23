-- The ledger. `docs/ledger-format.md` says how an entry's hash is made from these columns.

CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE chains (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    stamp BLOB NOT NULL DEFAULT x''
) STRICT;

CREATE TABLE entries (
    chain INTEGER NOT NULL REFERENCES chains (id),
    seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    ref TEXT NOT NULL,
    payload BLOB NOT NULL,
    attached BLOB NOT NULL,
    prev BLOB NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (chain, seq)
) STRICT;

-- So every entry has one successor at most. A unique key on (chain, prev) would say the same, but
-- hashes come in random order: each entry would write a page of its index.
CREATE TRIGGER entries_join BEFORE INSERT ON entries
WHEN NEW.prev IS NOT (
    SELECT hash FROM entries WHERE chain = NEW.chain AND seq = NEW.seq - 1
) AND EXISTS (SELECT 1 FROM entries WHERE chain = NEW.chain)
BEGIN
    SELECT raise(ABORT, 'entries.prev is not the hash of the entry before');
END;

CREATE INDEX entries_by_id ON entries (id);
CREATE INDEX entries_by_ref ON entries (ref) WHERE ref <> '';
CREATE INDEX entries_by_kind ON entries (kind, at_us);

CREATE TABLE attachments (
    chain INTEGER NOT NULL REFERENCES chains (id),
    seq INTEGER NOT NULL,
    place INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (chain, seq, place)
) STRICT;
