-- What turns looked like and how they went. Sums and counts only, so that any part can be undone.

CREATE TABLE fingerprints (
    id TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL,
    vector BLOB NOT NULL,
    samples INTEGER NOT NULL,
    updated_us INTEGER NOT NULL
) STRICT;

CREATE INDEX fingerprints_by_age ON fingerprints (updated_us, samples, id);

CREATE TABLE outcomes (
    fingerprint TEXT NOT NULL REFERENCES fingerprints (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    samples INTEGER NOT NULL,
    score_sum INTEGER NOT NULL,
    score_count INTEGER NOT NULL,
    cost_microusd INTEGER NOT NULL,
    latency_ms INTEGER NOT NULL,
    pricing_version TEXT NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (fingerprint, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    id TEXT NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL REFERENCES fingerprints (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    score INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX turns_by_fingerprint ON turns (fingerprint);
CREATE INDEX turns_by_age ON turns (at_us);

CREATE TABLE evals (
    id TEXT NOT NULL PRIMARY KEY,
    turn TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX evals_by_turn ON evals (turn);

CREATE TABLE imports (
    id TEXT NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL REFERENCES fingerprints (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX imports_by_fingerprint ON imports (fingerprint);
