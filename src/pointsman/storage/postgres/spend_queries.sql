-- is_by_chain: whether each chain has sums of its own, which only its writer adds to
SELECT 1;

-- add_spent: add to one sum
INSERT INTO spent (
    chain, day, key_id, session_id, workspace, model, price_version, calls, estimated_calls,
    unpriced_calls, input_tokens, output_tokens, cached_input_tokens, cache_creation_input_tokens,
    cost_microusd
) VALUES (
    :chain, :day, :key_id, :session_id, :workspace, :model, :price_version, :calls, :estimated_calls,
    :unpriced_calls, :input_tokens, :output_tokens, :cached_input_tokens,
    :cache_creation_input_tokens, :cost_microusd
)
ON CONFLICT (day, key_id, session_id, workspace, model, price_version, chain) DO UPDATE SET
    calls = spent.calls + excluded.calls,
    estimated_calls = spent.estimated_calls + excluded.estimated_calls,
    unpriced_calls = spent.unpriced_calls + excluded.unpriced_calls,
    input_tokens = spent.input_tokens + excluded.input_tokens,
    output_tokens = spent.output_tokens + excluded.output_tokens,
    cached_input_tokens = spent.cached_input_tokens + excluded.cached_input_tokens,
    cache_creation_input_tokens =
        spent.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
    cost_microusd = spent.cost_microusd + excluded.cost_microusd;

-- forget_batches: no writer of this name is at work
DELETE FROM batches WHERE writer = :writer;

-- was_clean: whether the chain's last writer closed
SELECT coalesce((SELECT is_clean FROM closing WHERE chain = :chain), 1);

-- write_clean: say whether the chain's last writer closed
INSERT INTO closing (chain, is_clean) VALUES (:chain, :is_clean)
ON CONFLICT (chain) DO UPDATE SET is_clean = excluded.is_clean;

-- last_day: the newest day that anything was spent on
SELECT coalesce(max(day), 0) FROM spent WHERE chain = :chain;

-- delete_since: forget the chain's sums of a day and all after it
DELETE FROM spent WHERE chain = :chain AND day >= :first;
