-- begin: tell the epoch that is open, or the one that is being built; begin one where there is none.
-- KEYS: epoch, building
-- ARGV: the epoch to begin with, prefix of epochs
local open = redis.call('GET', KEYS[1])
if open then
  return {'open', open}
end
if redis.call('SET', KEYS[2], ARGV[1], 'NX') then
  redis.call('HSET', ARGV[2] .. ARGV[1] .. ':holds', '', '')
end
return {'building', redis.call('GET', KEYS[2])}
