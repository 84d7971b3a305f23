-- What was spent, as sums over the ledger's outcome entries; can be made again from them.

CREATE TABLE spent (
    day INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    model TEXT NOT NULL,
    price_version TEXT NOT NULL,
    tenant TEXT NOT NULL,
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
CREATE INDEX spent_by_tenant ON spent (tenant, day) WHERE tenant <> '';
CREATE INDEX spent_by_workspace ON spent (workspace, day);

-- The last batch of each writer that is part of the sums above. A writer that has closed has no row:
-- one that is here and lives no more was killed, and its last batch may be lacking.
CREATE TABLE batches (
    writer TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What budgets are checked against, over all processes of the home.
CREATE TABLE accounts (
    name TEXT NOT NULL PRIMARY KEY,
    settled INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    end_day INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Money that is set aside for a call under way, and in which accounts it counts: a JSON list.
CREATE TABLE holds (
    id TEXT NOT NULL PRIMARY KEY,
    writer TEXT NOT NULL,
    amount INTEGER NOT NULL,
    accounts TEXT NOT NULL,
    at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is left of the limits of keys and tenants a minute.
CREATE TABLE buckets (
    name TEXT NOT NULL PRIMARY KEY,
    per_minute INTEGER NOT NULL,
    level INTEGER NOT NULL,
    at_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
