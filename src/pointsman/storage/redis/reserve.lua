-- reserve: set money aside in every account of a hold, or in none.
-- KEYS: epoch, holds, marks, then the hold's accounts
-- ARGV: epoch, id, the hold as text, amount, then for each bound: which account, its limit
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then
  return {'held'}
end
local unknown = {'unknown'}
for place = 5, #ARGV, 2 do
  if redis.call('EXISTS', KEYS[4 + ARGV[place]]) == 0 then
    unknown[#unknown + 1] = tonumber(ARGV[place])
  end
end
if #unknown > 1 then
  return unknown
end
local amount = tonumber(ARGV[4])
for place = 5, #ARGV, 2 do
  local found = redis.call('HMGET', KEYS[4 + ARGV[place]], 's', 'r')
  local left = tonumber(ARGV[place + 1]) - tonumber(found[1]) - tonumber(found[2])
  if amount > left then
    return {'short', (place - 5) / 2, string.format('%.0f', left)}
  end
end
for place = 4, #KEYS do
  if redis.call('EXISTS', KEYS[place]) == 1 then
    redis.call('HINCRBY', KEYS[place], 'r', ARGV[4])
  end
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return {'held'}
