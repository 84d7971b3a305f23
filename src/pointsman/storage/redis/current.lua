-- current: tell the epoch that is open, unless Redis forgot a part of it: then it is over.
-- KEYS: epoch
-- ARGV: prefix of epochs
local open = redis.call('GET', KEYS[1])
if not open then
  return false
end
local holds, marks = ARGV[1] .. open .. ':holds', ARGV[1] .. open .. ':marks'
if redis.call('HEXISTS', holds, '') == 0 or redis.call('HEXISTS', marks, '') == 0 then
  redis.call('DEL', KEYS[1], holds, marks)
  return false
end
return open
