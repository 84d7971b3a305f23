-- seed: begin to count an account with what the ledger says was spent, and what is set aside now.
-- KEYS: epoch, holds, marks, account
-- ARGV: epoch, the account's name, settled, when it ends in seconds or 0, then chain and mark in turn
if redis.call('EXISTS', KEYS[4]) == 1 then
  return 'known'
end
local known = {}
for place = 5, #ARGV, 2 do
  known[ARGV[place]] = tonumber(ARGV[place + 1])
end
-- What was counted here after the ledger was asked is not in the seed, and was lost on an account
-- that did not exist: ask again.
local counted = redis.call('HGETALL', KEYS[3])
for place = 1, #counted, 2 do
  if tonumber(counted[place + 1]) > (known[counted[place]] or 0) then
    return 'stale'
  end
end
local reserved = 0
local holds = redis.call('HGETALL', KEYS[2])
for place = 1, #holds, 2 do
  local hold = holds[place] ~= '' and cjson.decode(holds[place + 1]) or {accounts = {}}
  for _, name in ipairs(hold.accounts) do
    if name == ARGV[2] then
      reserved = reserved + hold.amount_microusd
    end
  end
end
redis.call('HSET', KEYS[4], 's', ARGV[3], 'r', string.format('%.0f', reserved))
for chain, mark in pairs(known) do
  redis.call('HSET', KEYS[4], 'm:' .. chain, string.format('%.0f', mark))
end
-- Every account ends: one that has no end of its own is seeded anew, and none outlives its epoch long.
if ARGV[4] ~= '0' then
  redis.call('EXPIREAT', KEYS[4], ARGV[4])
else
  redis.call('EXPIRE', KEYS[4], 604800)
end
return 'seeded'
