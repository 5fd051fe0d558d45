-- One call, atomically: refuses it if the balance is too low, otherwise takes its cost and appends
-- its row to the log.
-- KEYS: balance, log. ARGV: cost, key, account, method, path. Returns the new balance, or -1.
local cost = tonumber(ARGV[1])
local balance = tonumber(redis.call('GET', KEYS[1]) or '0')
if balance < cost then
  return -1
end
balance = redis.call('DECRBY', KEYS[1], cost)
redis.call('XADD', KEYS[2], '*', 'key', ARGV[2], 'account', ARGV[3], 'method', ARGV[4], 'path', ARGV[5], 'cost', cost)
return balance
