-- One call: refuses it when the balance is too low, or takes its cost and writes its row into the log, at once.
-- KEYS: balance, log. ARGV: cost, key, account, method, path. Gives the new balance, or -1.
local cost = tonumber(ARGV[1])
local balance = tonumber(redis.call('GET', KEYS[1]) or '0')
if balance < cost then
  return -1
end
balance = redis.call('DECRBY', KEYS[1], cost)
redis.call('XADD', KEYS[2], '*', 'key', ARGV[2], 'account', ARGV[3], 'method', ARGV[4], 'path', ARGV[5], 'cost', cost)
return balance
