-- finish: end an epoch whose counts are ahead of the ledger, unless it has ended already.
-- KEYS: epoch, its holds, its marks
-- ARGV: epoch
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
