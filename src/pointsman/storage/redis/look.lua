-- look: how accounts stand; an empty pair for one that is not counted.
-- KEYS: epoch, then accounts
-- ARGV: epoch
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {'epoch'}
end
local found = {}
for place = 2, #KEYS do
  local pair = redis.call('HMGET', KEYS[place], 's', 'r')
  found[#found + 1] = {pair[1] or '', pair[2] or ''}
end
return found
