-- Refuses a call if the balance is too low, otherwise takes its cost. KEYS: balance. ARGV: cost.
-- Returns the new balance, or -1.
local cost = tonumber(ARGV[1])
local balance = tonumber(redis.call('GET', KEYS[1]) or '0')
if balance < cost then
  return -1
end
return redis.call('DECRBY', KEYS[1], cost)
