-- give_up: let go of a claim, unless another has it by now.
-- KEYS: claim
-- ARGV: holder
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
