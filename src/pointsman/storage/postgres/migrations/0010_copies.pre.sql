-- Homes that were copied into this database: begun, and finished once everything was proved equal.

CREATE TABLE pointsman.copies (
    ledger TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    began_us BIGINT NOT NULL,
    finished_us BIGINT
);
