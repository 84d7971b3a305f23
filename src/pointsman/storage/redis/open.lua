-- open: from now on money may be set aside in this epoch.
-- KEYS: epoch, building, marks of the epoch
-- ARGV: epoch, then chain and mark in turn: up to where the ledger was added up for seeds
if redis.call('GET', KEYS[2]) == ARGV[1] then
  for place = 2, #ARGV, 2 do
    redis.call('HSET', KEYS[3], ARGV[place], ARGV[place + 1])
  end
  redis.call('SET', KEYS[1], ARGV[1])
  redis.call('DEL', KEYS[2])
end
return redis.call('GET', KEYS[1])
