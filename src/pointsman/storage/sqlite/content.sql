-- Message text, apart from the ledger so that it can be erased.

CREATE TABLE contents (
    digest TEXT NOT NULL PRIMARY KEY,
    kept TEXT NOT NULL CHECK (kept IN ('full', 'redacted', 'erased')),
    text BLOB NOT NULL
) STRICT;
