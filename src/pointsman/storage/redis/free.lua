-- free: give back what was set aside, by id or for a whole process.
-- KEYS: epoch, holds, marks
-- ARGV: epoch, prefix of accounts, process or empty, then ids
local ids = {}
if ARGV[3] == '' then
  for place = 4, #ARGV do
    ids[#ids + 1] = ARGV[place]
  end
else
  local all = redis.call('HGETALL', KEYS[2])
  for place = 1, #all, 2 do
    if all[place] ~= '' and cjson.decode(all[place + 1]).process == ARGV[3] then
      ids[#ids + 1] = all[place]
    end
  end
end
local freed = 0
for _, id in ipairs(ids) do
  local text = redis.call('HGET', KEYS[2], id)
  if text then
    local hold = cjson.decode(text)
    for _, name in ipairs(hold.accounts) do
      if redis.call('EXISTS', ARGV[2] .. name) == 1 then
        redis.call('HINCRBY', ARGV[2] .. name, 'r', string.format('%.0f', -hold.amount_microusd))
      end
    end
    redis.call('HDEL', KEYS[2], id)
    freed = freed + 1
  end
end
return freed
