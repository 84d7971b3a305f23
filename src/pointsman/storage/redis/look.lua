-- look: how accounts stand; an empty pair for one that is not counted.
-- KEYS: epoch, holds, marks, then accounts
-- ARGV: epoch
local found = {}
for place = 4, #KEYS do
  local pair = redis.call('HMGET', KEYS[place], 's', 'r')
  found[#found + 1] = {pair[1] or '', pair[2] or ''}
end
return found
