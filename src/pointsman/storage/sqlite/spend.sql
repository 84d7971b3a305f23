-- What was spent, as sums over the ledger's outcome entries; can be made again from them.

CREATE TABLE spent (
    day INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    model TEXT NOT NULL,
    price_version TEXT NOT NULL,
    calls INTEGER NOT NULL,
    estimated_calls INTEGER NOT NULL,
    unpriced_calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_creation_input_tokens INTEGER NOT NULL,
    cost_microusd INTEGER NOT NULL,
    -- Sessions come in random order: theirs is the only index that does not grow at its end.
    PRIMARY KEY (session_id, key_id, day, workspace, model, price_version)
) STRICT;

CREATE INDEX spent_by_day ON spent (day);
CREATE INDEX spent_by_key ON spent (key_id, day);
CREATE INDEX spent_by_workspace ON spent (workspace, day);

-- The last batch of each writer that is part of the sums above.
CREATE TABLE batches (
    writer TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: whether everything handed in was written when the store was closed last.
CREATE TABLE closing (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    is_clean INTEGER NOT NULL
) STRICT;

INSERT INTO closing (one, is_clean) VALUES (1, 1);
