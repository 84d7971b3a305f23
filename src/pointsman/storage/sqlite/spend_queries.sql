-- add_spent: add to one sum
INSERT INTO spent (
    day, key_id, session_id, workspace, model, price_version, tenant, calls, estimated_calls,
    unpriced_calls, input_tokens, output_tokens, cached_input_tokens, cache_creation_input_tokens,
    cost_microusd
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (day, key_id, session_id, workspace, model, price_version) DO UPDATE SET
    calls = spent.calls + excluded.calls,
    estimated_calls = spent.estimated_calls + excluded.estimated_calls,
    unpriced_calls = spent.unpriced_calls + excluded.unpriced_calls,
    input_tokens = spent.input_tokens + excluded.input_tokens,
    output_tokens = spent.output_tokens + excluded.output_tokens,
    cached_input_tokens = spent.cached_input_tokens + excluded.cached_input_tokens,
    cache_creation_input_tokens =
        spent.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
    cost_microusd = spent.cost_microusd + excluded.cost_microusd;

-- write_batch: say which batch of a writer the sums hold now
INSERT INTO batches (writer, number) VALUES (:writer, :number)
ON CONFLICT (writer) DO UPDATE SET number = excluded.number;

-- writers: who has not closed, or was killed
SELECT writer FROM batches ORDER BY writer;

-- forget_writer: all that a writer handed in is part of the sums
DELETE FROM batches WHERE writer = :writer;

-- read_accounts: how accounts stand
SELECT name, settled, reserved FROM accounts WHERE name IN (?);

-- begin_account: count an account, with what was spent and is set aside already
INSERT INTO accounts (name, settled, reserved, end_day) VALUES (
    ?, ?, (
        SELECT coalesce(sum(amount), 0) FROM holds
        WHERE EXISTS (SELECT 1 FROM json_each(accounts) WHERE value = ?)
    ), ?
) ON CONFLICT DO NOTHING;

-- change_account: set money aside or free it, and count what was spent
UPDATE accounts SET reserved = reserved + ?, settled = settled + ? WHERE name = ?;

-- add_hold: remember what was set aside
INSERT INTO holds (id, writer, amount, accounts, at_us) VALUES (?, ?, ?, ?, ?);

-- held_id: what is set aside for one call
SELECT amount, accounts FROM holds WHERE id = ?;

-- held_writer: what a writer has set aside
SELECT amount, accounts FROM holds WHERE writer = ?;

-- held_before: what was set aside before an instant
SELECT amount, accounts FROM holds WHERE at_us < ?;

-- delete_id: forget one
DELETE FROM holds WHERE id = ?;

-- delete_writer: forget those of a writer
DELETE FROM holds WHERE writer = ?;

-- delete_before: forget those from before an instant
DELETE FROM holds WHERE at_us < ?;

-- read_bucket: what is left of a limit
SELECT per_minute, level, at_us FROM buckets WHERE name = ?;

-- write_bucket: say what is left of a limit
INSERT INTO buckets (name, per_minute, level, at_us) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET per_minute = excluded.per_minute, level = excluded.level,
    at_us = excluded.at_us;

-- holders: who has set something aside
SELECT DISTINCT writer FROM holds;

-- forget_accounts: accounts are counted anew
DELETE FROM holds;
DELETE FROM accounts;

-- last_day: the newest day that anything was spent on
SELECT coalesce(max(day), 0) FROM spent;

-- delete_since: forget the sums of a day and all after it
DELETE FROM spent WHERE day >= :first;

-- cost_all: what everybody spent from one day up to another, and the last batch it includes
SELECT CAST(coalesce(sum(cost_microusd), 0) AS BIGINT),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE day >= :first AND day < :end;

-- cost_key: what a key spent
SELECT CAST(coalesce(sum(cost_microusd), 0) AS BIGINT),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE key_id = :key AND day >= :first AND day < :end;

-- cost_session: what a session of a key spent
SELECT CAST(coalesce(sum(cost_microusd), 0) AS BIGINT),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE session_id = :owner AND key_id = :key AND day >= :first AND day < :end;

-- cost_workspace: what was spent in a workspace
SELECT CAST(coalesce(sum(cost_microusd), 0) AS BIGINT),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE workspace = :owner AND day >= :first AND day < :end;

-- cost_tenant: what the keys of a tenant spent
SELECT CAST(coalesce(sum(cost_microusd), 0) AS BIGINT),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE tenant = :owner AND tenant <> '' AND day >= :first AND day < :end;

-- totals: sums by day, key, session, workspace, model or tenant, of one of these or of all
SELECT
    CASE :by
        WHEN 'day' THEN CAST(day AS TEXT) WHEN 'key' THEN key_id WHEN 'session' THEN session_id
        WHEN 'workspace' THEN workspace WHEN 'model' THEN model WHEN 'tenant' THEN tenant ELSE ''
    END AS what,
    CAST(sum(calls) AS BIGINT), CAST(sum(estimated_calls) AS BIGINT),
    CAST(sum(unpriced_calls) AS BIGINT), CAST(sum(input_tokens) AS BIGINT),
    CAST(sum(output_tokens) AS BIGINT), CAST(sum(cached_input_tokens) AS BIGINT),
    CAST(sum(cache_creation_input_tokens) AS BIGINT), CAST(sum(cost_microusd) AS BIGINT)
FROM spent
WHERE day >= :first AND day < :end
    AND (CAST(:session AS TEXT) IS NULL OR session_id = :session)
    AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)
    AND (CAST(:tenant AS TEXT) IS NULL OR tenant = :tenant)
GROUP BY what ORDER BY CASE :by WHEN 'day' THEN min(day) ELSE 0 END, what;
