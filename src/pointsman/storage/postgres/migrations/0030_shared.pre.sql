-- What replicas share beside the ledger. All of it can be lost: it is made again from the ledger,
-- or was good for minutes only.

CREATE SCHEMA pointsman_shared;

-- Up to which entry each chain's outcomes are part of `pointsman_spend.spent`.
CREATE TABLE pointsman_shared.marks (
    chain TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    mark BIGINT NOT NULL
);

-- Accounts that a budget was checked against; the others are counted when they first are.
CREATE TABLE pointsman_shared.accounts (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    settled BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    end_day BIGINT NOT NULL
);

-- Money set aside for calls that have not ended.
CREATE TABLE pointsman_shared.holds (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    process TEXT COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    accounts TEXT[] COLLATE "C" NOT NULL
);

CREATE INDEX holds_by_process ON pointsman_shared.holds (process);

-- Who serves, since when, and until when it counts as alive without another sign.
CREATE TABLE pointsman_shared.replicas (
    process TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    chain TEXT COLLATE "C" NOT NULL,
    policy_id TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    epoch TEXT COLLATE "C" NOT NULL,
    holding BIGINT NOT NULL,
    beat_at TIMESTAMPTZ NOT NULL,
    alive_until TIMESTAMPTZ NOT NULL
);

-- The model that a session's turn is bound to while it waits for a tool.
CREATE TABLE pointsman_shared.turns (
    session_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    turn_id TEXT COLLATE "C" NOT NULL,
    decision_id TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    calls BIGINT NOT NULL,
    is_escalated BOOLEAN NOT NULL,
    at_us BIGINT NOT NULL
);

CREATE INDEX turns_by_time ON pointsman_shared.turns (at_us);

-- How calls to providers ended, in the one order that every replica folds them in.
CREATE TABLE pointsman_shared.events (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at TIMESTAMPTZ NOT NULL DEFAULT now(),
    body BYTEA NOT NULL
);

-- What one replica at a time may do, and until when.
CREATE TABLE pointsman_shared.claims (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    until TIMESTAMPTZ NOT NULL
);

-- Everything below changes `holds` and `accounts` under a lock on `holds` that only `seed` finds in
-- its way: an account begins to be counted between two changes, never in the middle of one.

CREATE FUNCTION pointsman_shared.reserve(
    p_id TEXT, p_process TEXT, p_amount BIGINT, p_accounts TEXT[], p_bounded TEXT[], p_limits BIGINT[]
) RETURNS TABLE (word TEXT, place INTEGER, room BIGINT) LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE pointsman_shared.holds IN ROW EXCLUSIVE MODE;
    -- In one order for all, so that nobody waits for each other.
    PERFORM 1 FROM pointsman_shared.accounts AS a
        WHERE a.name = ANY (p_accounts) ORDER BY a.name FOR UPDATE;
    IF EXISTS (SELECT 1 FROM pointsman_shared.holds AS h WHERE h.id = p_id) THEN
        RETURN QUERY SELECT 'held', 0, 0::BIGINT;
        RETURN;
    END IF;
    RETURN QUERY SELECT 'unknown', b.at::INTEGER - 1, 0::BIGINT
        FROM unnest(p_bounded) WITH ORDINALITY AS b (name, at)
        WHERE NOT EXISTS (SELECT 1 FROM pointsman_shared.accounts AS a WHERE a.name = b.name);
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT 'short', b.at::INTEGER - 1, b.most - a.settled - a.reserved
        FROM unnest(p_bounded, p_limits) WITH ORDINALITY AS b (name, most, at)
        JOIN pointsman_shared.accounts AS a ON a.name = b.name
        WHERE p_amount > b.most - a.settled - a.reserved ORDER BY b.at LIMIT 1;
    IF FOUND THEN
        RETURN;
    END IF;
    UPDATE pointsman_shared.accounts AS a SET reserved = a.reserved + p_amount
        WHERE a.name = ANY (p_accounts);
    INSERT INTO pointsman_shared.holds (id, process, amount, accounts)
        VALUES (p_id, p_process, p_amount, p_accounts);
    RETURN QUERY SELECT 'held', 0, 0::BIGINT;
END $$;

-- Free what was set aside for these.
CREATE FUNCTION pointsman_shared.free(p_ids TEXT[]) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    freed BIGINT;
BEGIN
    LOCK TABLE pointsman_shared.holds IN ROW EXCLUSIVE MODE;
    PERFORM 1 FROM pointsman_shared.accounts AS a WHERE a.name IN (
        SELECT unnest(h.accounts) FROM pointsman_shared.holds AS h WHERE h.id = ANY (p_ids)
    ) ORDER BY a.name FOR UPDATE;
    WITH gone AS (
        DELETE FROM pointsman_shared.holds AS h WHERE h.id = ANY (p_ids) RETURNING h.amount, h.accounts
    ), less AS (
        SELECT each.name, sum(g.amount)::BIGINT AS amount
        FROM gone AS g, unnest(g.accounts) AS each (name) GROUP BY each.name
    ), done AS (
        UPDATE pointsman_shared.accounts AS a SET reserved = a.reserved - less.amount
        FROM less WHERE a.name = less.name
    )
    SELECT count(*) INTO freed FROM gone;
    RETURN freed;
END $$;

-- Count what a chain says ended. Gives the mark that was found: the batch counted if it is `p_first`.
CREATE FUNCTION pointsman_shared.fold(
    p_chain TEXT, p_first BIGINT, p_mark BIGINT, p_ids TEXT[], p_accounts TEXT[], p_costs BIGINT[]
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    known BIGINT;
BEGIN
    LOCK TABLE pointsman_shared.holds IN ROW EXCLUSIVE MODE;
    INSERT INTO pointsman_shared.marks (chain, mark) VALUES (p_chain, 0) ON CONFLICT DO NOTHING;
    SELECT m.mark INTO known FROM pointsman_shared.marks AS m WHERE m.chain = p_chain FOR UPDATE;
    IF known <> p_first THEN
        RETURN known;
    END IF;
    PERFORM 1 FROM pointsman_shared.accounts AS a WHERE a.name = ANY (p_accounts) OR a.name IN (
        SELECT unnest(h.accounts) FROM pointsman_shared.holds AS h WHERE h.id = ANY (p_ids)
    ) ORDER BY a.name FOR UPDATE;
    UPDATE pointsman_shared.accounts AS a SET settled = a.settled + more.cost
        FROM unnest(p_accounts, p_costs) AS more (name, cost) WHERE a.name = more.name;
    PERFORM pointsman_shared.free(p_ids);
    UPDATE pointsman_shared.marks SET mark = p_mark WHERE chain = p_chain;
    RETURN known;
END $$;

-- What one account has spent, as far as chains are folded.
CREATE FUNCTION pointsman_shared.spent(
    p_each TEXT, p_key TEXT, p_owner TEXT, p_first BIGINT, p_end BIGINT
) RETURNS BIGINT LANGUAGE plpgsql STABLE AS $$
DECLARE
    total NUMERIC;
BEGIN
    IF p_each = 'all' THEN
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE day >= p_first AND day < p_end;
    ELSIF p_each = 'key' THEN
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE key_id = p_key AND day >= p_first AND day < p_end;
    ELSIF p_each = 'session' THEN
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE session_id = p_owner AND key_id = p_key AND day >= p_first AND day < p_end;
    ELSE
        SELECT sum(cost_microusd) INTO total FROM pointsman_spend.spent
            WHERE workspace = p_owner AND day >= p_first AND day < p_end;
    END IF;
    RETURN coalesce(total, 0);
END $$;

-- Begin to count an account, with what was spent and is set aside already.
CREATE FUNCTION pointsman_shared.seed(
    p_name TEXT, p_each TEXT, p_key TEXT, p_owner TEXT, p_first BIGINT, p_end BIGINT
) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE pointsman_shared.holds IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO pointsman_shared.accounts (name, settled, reserved, end_day) VALUES (
        p_name,
        pointsman_shared.spent(p_each, p_key, p_owner, p_first, p_end),
        (SELECT coalesce(sum(h.amount), 0) FROM pointsman_shared.holds AS h
            WHERE p_name = ANY (h.accounts)),
        p_end
    ) ON CONFLICT DO NOTHING;
END $$;

-- Make the sums anew where nobody marked yet what they hold; the empty name marks that it was done.
CREATE FUNCTION pointsman_shared.adopt() RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM pointsman_shared.marks WHERE chain = '') THEN
        RETURN;
    END IF;
    LOCK TABLE pointsman_shared.holds IN SHARE ROW EXCLUSIVE MODE;
    IF NOT EXISTS (SELECT 1 FROM pointsman_shared.marks WHERE chain = '') THEN
        DELETE FROM pointsman_spend.spent;
        INSERT INTO pointsman_shared.marks (chain, mark) VALUES ('', 0);
    END IF;
END $$;
