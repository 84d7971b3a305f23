-- restore: bring what a process had set aside into an epoch that is being built.
-- KEYS: building, holds of that epoch
-- ARGV: epoch, then id and hold in turn
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call('HEXISTS', KEYS[2], '') == 0 then
  -- What others brought is forgotten: all must bring it again, into another.
  redis.call('DEL', KEYS[1])
  return 0
end
for place = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[2], ARGV[place], ARGV[place + 1])
end
return 1
