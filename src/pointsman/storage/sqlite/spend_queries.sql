-- add_spent: add to one sum
INSERT INTO spent (
    day, key_id, session_id, workspace, model, price_version, calls, estimated_calls,
    unpriced_calls, input_tokens, output_tokens, cached_input_tokens, cache_creation_input_tokens,
    cost_microusd
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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

-- forget_batches: no writer is at work
DELETE FROM batches;

-- was_clean: whether the last writer closed
SELECT is_clean FROM closing;

-- write_clean: say whether the last writer closed
UPDATE closing SET is_clean = :is_clean;

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

-- totals: sums by day, key, session, workspace or model, of one session or key or of all
SELECT
    CASE :by
        WHEN 'day' THEN CAST(day AS TEXT) WHEN 'key' THEN key_id WHEN 'session' THEN session_id
        WHEN 'workspace' THEN workspace WHEN 'model' THEN model ELSE ''
    END AS what,
    CAST(sum(calls) AS BIGINT), CAST(sum(estimated_calls) AS BIGINT),
    CAST(sum(unpriced_calls) AS BIGINT), CAST(sum(input_tokens) AS BIGINT),
    CAST(sum(output_tokens) AS BIGINT), CAST(sum(cached_input_tokens) AS BIGINT),
    CAST(sum(cache_creation_input_tokens) AS BIGINT), CAST(sum(cost_microusd) AS BIGINT)
FROM spent
WHERE day >= :first AND day < :end
    AND (CAST(:session AS TEXT) IS NULL OR session_id = :session)
    AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)
GROUP BY what ORDER BY CASE :by WHEN 'day' THEN min(day) ELSE 0 END, what;
