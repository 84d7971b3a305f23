-- whole: comes before every script that counts. Nothing is counted in an epoch that is over, or that
-- Redis forgot a part of: holds and marks each have a field without a name for as long as they last.
-- KEYS: epoch, holds, marks, then those of the script
-- ARGV: epoch, then those of the script
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 'epoch'
end
if redis.call('HEXISTS', KEYS[2], '') == 0 or redis.call('HEXISTS', KEYS[3], '') == 0 then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
  return 'epoch'
end
