-- open: from now on money may be set aside in this epoch, unless what was brought is forgotten.
-- KEYS: epoch, building, holds of the epoch, its marks
-- ARGV: epoch, then chain and mark in turn: up to where the ledger was added up for seeds
if redis.call('GET', KEYS[2]) == ARGV[1] then
  if redis.call('HEXISTS', KEYS[3], '') == 1 then
    redis.call('HSET', KEYS[4], '', 0)
    for place = 2, #ARGV, 2 do
      redis.call('HSET', KEYS[4], ARGV[place], ARGV[place + 1])
    end
    redis.call('SET', KEYS[1], ARGV[1])
  end
  redis.call('DEL', KEYS[2])
end
return redis.call('GET', KEYS[1])
