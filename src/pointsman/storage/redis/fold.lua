-- fold: count what a chain of the ledger says ended; every entry counts once.
-- KEYS: epoch, holds, marks
-- ARGV: epoch, prefix of accounts, chain, first, mark,
--       then for each: id, entry, cost, how many accounts, accounts
local known = redis.call('HGET', KEYS[3], ARGV[3]) or '0'
if tonumber(known) ~= tonumber(ARGV[4]) then
  return known
end
local place = 6
while place <= #ARGV do
  local id, seq, cost, many = ARGV[place], tonumber(ARGV[place + 1]), ARGV[place + 2], ARGV[place + 3]
  local text = redis.call('HGET', KEYS[2], id)
  if text then
    local hold = cjson.decode(text)
    for _, name in ipairs(hold.accounts) do
      if redis.call('EXISTS', ARGV[2] .. name) == 1 then
        redis.call('HINCRBY', ARGV[2] .. name, 'r', string.format('%.0f', -hold.amount_microusd))
      end
    end
    redis.call('HDEL', KEYS[2], id)
  end
  for number = 1, tonumber(many) do
    local account = ARGV[2] .. ARGV[place + 3 + number]
    if redis.call('EXISTS', account) == 1 then
      -- An account that was seeded from the ledger later than this entry has it already.
      if tonumber(redis.call('HGET', account, 'm:' .. ARGV[3]) or '0') <= seq then
        redis.call('HINCRBY', account, 's', cost)
      end
    end
  end
  place = place + 4 + tonumber(many)
end
redis.call('HSET', KEYS[3], ARGV[3], ARGV[5])
return known
