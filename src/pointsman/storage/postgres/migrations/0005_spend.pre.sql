-- What was spent, as sums over the ledger's outcome entries; can be made again from them.
CREATE SCHEMA pointsman_spend;

-- Each chain has sums of its own, which only its writer adds to: nobody waits for anybody, and what
-- a crash left out of one writer's sums is made whole from its own chain while others go on.
CREATE TABLE pointsman_spend.spent (
    chain TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    workspace TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    price_version TEXT COLLATE "C" NOT NULL,
    calls BIGINT NOT NULL,
    estimated_calls BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cached_input_tokens BIGINT NOT NULL,
    cache_creation_input_tokens BIGINT NOT NULL,
    cost_microusd BIGINT NOT NULL,
    PRIMARY KEY (day, key_id, session_id, workspace, model, price_version, chain)
);

CREATE INDEX spent_by_session ON pointsman_spend.spent (session_id, key_id, day);
CREATE INDEX spent_by_key ON pointsman_spend.spent (key_id, day);
CREATE INDEX spent_by_workspace ON pointsman_spend.spent (workspace, day);
CREATE INDEX spent_by_chain ON pointsman_spend.spent (chain, day);

-- The last batch of each writer that is part of the sums above.
CREATE TABLE pointsman_spend.batches (
    writer TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL
);

-- Whether everything handed in for a chain was written when its writer closed last.
CREATE TABLE pointsman_spend.closing (
    chain TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    is_clean INTEGER NOT NULL
);
