-- What was decided about turns, for lists and counts. Made from the ledger; can be made again.

CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    decision_id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    model TEXT NOT NULL,
    policy TEXT NOT NULL,
    rule TEXT NOT NULL,
    workspace TEXT NOT NULL,
    digest TEXT NOT NULL,
    gate TEXT NOT NULL,
    placement_rule TEXT NOT NULL,
    rejected INTEGER NOT NULL,
    is_preview INTEGER NOT NULL,
    is_worker INTEGER NOT NULL,
    state TEXT NOT NULL,
    tenant TEXT NOT NULL,
    served TEXT NOT NULL DEFAULT '',
    fallbacks INTEGER NOT NULL DEFAULT 0,
    calls INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    error_class TEXT NOT NULL DEFAULT '',
    cost_microusd INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    elapsed_us INTEGER NOT NULL DEFAULT 0,
    first_byte_us INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The cost is in it so that turns of some cost are found without looking at each row.
CREATE INDEX turns_by_time ON turns (at_us, decision_id, cost_microusd);
CREATE INDEX turns_by_turn ON turns (turn_id);
CREATE INDEX turns_by_model ON turns (model, at_us, decision_id);
CREATE INDEX turns_by_policy ON turns (policy, at_us, decision_id);
CREATE INDEX turns_by_rule ON turns (rule, at_us, decision_id) WHERE rule <> '';
CREATE INDEX turns_by_session ON turns (session_id, at_us, decision_id) WHERE session_id <> '';
CREATE INDEX turns_by_workspace ON turns (workspace, at_us, decision_id) WHERE workspace <> '';
CREATE INDEX turns_by_state ON turns (state, at_us, decision_id) WHERE state <> 'done';
CREATE INDEX turns_by_tenant ON turns (tenant, at_us, decision_id) WHERE tenant <> '';
CREATE INDEX turns_by_digest ON turns (digest, at_us, decision_id);

-- Further decisions about a turn: calls that act on one of them belong to the turn, too.
CREATE TABLE followers (
    decision_id TEXT NOT NULL PRIMARY KEY,
    turn INTEGER NOT NULL REFERENCES turns (id)
) STRICT, WITHOUT ROWID;

CREATE TABLE buckets (
    bucket INTEGER NOT NULL,
    model TEXT NOT NULL,
    tenant TEXT NOT NULL,
    turns INTEGER NOT NULL,
    fallbacks INTEGER NOT NULL,
    cost_microusd INTEGER NOT NULL,
    PRIMARY KEY (bucket, model, tenant)
) STRICT, WITHOUT ROWID;

-- The values that turns can be filtered by, and how many turns have each.
CREATE TABLE facets (
    what TEXT NOT NULL,
    value TEXT NOT NULL,
    tenant TEXT NOT NULL,
    turns INTEGER NOT NULL,
    PRIMARY KEY (tenant, what, value)
) STRICT, WITHOUT ROWID;

CREATE TABLE rules (
    rule TEXT NOT NULL,
    tenant TEXT NOT NULL,
    hits INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    PRIMARY KEY (rule, tenant)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    session_id TEXT NOT NULL PRIMARY KEY,
    first_us INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    fallbacks INTEGER NOT NULL,
    switches INTEGER NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    cost_microusd INTEGER NOT NULL,
    is_worker INTEGER NOT NULL,
    tenant TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_time ON sessions (last_us, session_id);
CREATE INDEX sessions_by_tenant ON sessions (tenant, last_us, session_id) WHERE tenant <> '';

-- How far each chain was read, and the hash of the last entry that was.
CREATE TABLE progress (
    chain TEXT NOT NULL PRIMARY KEY,
    next INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Which session handed work to which.
CREATE TABLE workers (
    worker TEXT NOT NULL PRIMARY KEY,
    parent TEXT NOT NULL
) STRICT, WITHOUT ROWID;
