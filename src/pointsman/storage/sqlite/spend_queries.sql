-- add_spent: add to one sum
INSERT INTO spent (
    day, key_id, session_id, workspace, model, price_version, calls, estimated_calls,
    unpriced_calls, input_tokens, output_tokens, cached_input_tokens, cache_creation_input_tokens,
    cost_microusd
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    calls = calls + excluded.calls,
    estimated_calls = estimated_calls + excluded.estimated_calls,
    unpriced_calls = unpriced_calls + excluded.unpriced_calls,
    input_tokens = input_tokens + excluded.input_tokens,
    output_tokens = output_tokens + excluded.output_tokens,
    cached_input_tokens = cached_input_tokens + excluded.cached_input_tokens,
    cache_creation_input_tokens = cache_creation_input_tokens + excluded.cache_creation_input_tokens,
    cost_microusd = cost_microusd + excluded.cost_microusd;

-- write_batch: say which batch of a writer the sums hold now
INSERT INTO batches (writer, number) VALUES (?, ?)
ON CONFLICT (writer) DO UPDATE SET number = excluded.number;

-- forget_batches: no writer is at work
DELETE FROM batches;

-- was_clean: whether the last writer closed
SELECT is_clean FROM closing;

-- write_clean: say whether the last writer closed
UPDATE closing SET is_clean = ?;

-- last_day: the newest day that anything was spent on
SELECT coalesce(max(day), 0) FROM spent;

-- delete_since: forget the sums of a day and all after it
DELETE FROM spent WHERE day >= ?;

-- cost_all: what everybody spent from one day up to another, and the last batch it includes
SELECT coalesce(sum(cost_microusd), 0),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE day >= :first AND day < :end;

-- cost_key: what a key spent
SELECT coalesce(sum(cost_microusd), 0),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE key_id = :key AND day >= :first AND day < :end;

-- cost_session: what a session of a key spent
SELECT coalesce(sum(cost_microusd), 0),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE session_id = :owner AND key_id = :key AND day >= :first AND day < :end;

-- cost_workspace: what was spent in a workspace
SELECT coalesce(sum(cost_microusd), 0),
    coalesce((SELECT number FROM batches WHERE writer = :writer), 0)
FROM spent WHERE workspace = :owner AND day >= :first AND day < :end;

-- totals: sums by day, key, session, workspace or model, of one session or key or of all
SELECT
    CASE :by
        WHEN 'day' THEN day WHEN 'key' THEN key_id WHEN 'session' THEN session_id
        WHEN 'workspace' THEN workspace WHEN 'model' THEN model ELSE ''
    END AS what,
    sum(calls), sum(estimated_calls), sum(unpriced_calls), sum(input_tokens), sum(output_tokens),
    sum(cached_input_tokens), sum(cache_creation_input_tokens), sum(cost_microusd)
FROM spent
WHERE day >= :first AND day < :end
    AND (:session IS NULL OR session_id = :session) AND (:key IS NULL OR key_id = :key)
GROUP BY what ORDER BY what;
