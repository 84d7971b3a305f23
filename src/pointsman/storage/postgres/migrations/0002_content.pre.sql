-- Message text, apart from the ledger so that it can be erased.

CREATE SCHEMA pointsman_content;

CREATE TABLE pointsman_content.contents (
    digest TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kept TEXT COLLATE "C" NOT NULL CHECK (kept IN ('full', 'redacted', 'erased')),
    text BYTEA NOT NULL
);
