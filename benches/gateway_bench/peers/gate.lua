-- The work of a metering gateway in nginx: who calls, with which account, whether the credits suffice; then the
-- credentials are set and nginx forwards the call. Keys and accounts are cached in memory that all workers share.
local redis = require "nginx.redis"

local CACHE_S = 60
local POOL = { pool_size = 128, backlog = 16384 }
local KEPT_MS = 3600000

local gate = {}
local spend, spend_sha

function gate.init(script, sha)
  spend, spend_sha = script, sha
end

local function refuse(status, code)
  ngx.status = status
  ngx.header["Content-Type"] = "application/json"
  ngx.print('{"error":{"code":"', code, '"}}')
  return ngx.exit(status)
end

local function open(port)
  local connection = redis:new()
  connection:set_timeout(30000)
  local ok, failure = connection:connect("127.0.0.1", port, POOL)
  if not ok then
    ngx.log(ngx.ERR, "redis: ", failure)
    return nil
  end
  return connection
end

local function customer_of(connection, key)
  local keys = ngx.shared.keys
  local customer = keys:get(key)
  if not customer then
    customer = connection:get("key:" .. key)
    if not customer or customer == ngx.null then
      return nil
    end
    keys:set(key, customer, CACHE_S)
  end
  return customer
end

-- The credentials as one text: their parts, a line each.
local function credentials_of(connection, customer, account)
  local accounts = ngx.shared.accounts
  local name = customer .. ":" .. account
  local credentials = accounts:get(name)
  if not credentials then
    local found = connection:hmget("account:" .. name, "authorization", "user", "agent")
    if not found or found[1] == ngx.null then
      return nil
    end
    credentials = table.concat(found, "\n")
    accounts:set(name, credentials, CACHE_S)
  end
  return credentials
end

local function charge(connection, customer, key, account, method, path)
  local cost = method == "GET" and 1 or 2
  local balance_key, log_key = "balance:" .. customer, "calls:" .. customer
  local balance, failure = connection:evalsha(spend_sha, 2, balance_key, log_key, cost, key, account, method, path)
  if not balance and failure and failure:find("NOSCRIPT", 1, true) then
    balance, failure = connection:eval(spend, 2, balance_key, log_key, cost, key, account, method, path)
  end
  if not balance then
    ngx.log(ngx.ERR, "redis: ", failure)
  end
  return balance, cost
end

-- Before the call is forwarded. `port` is Redis'.
function gate.access(port)
  local variables = ngx.var
  local key = variables.http_x_api_key
  if not key then
    return refuse(401, "missing_key")
  end
  local account, path = variables.account, variables.path
  local connection = open(port)
  if not connection then
    return refuse(503, "unavailable")
  end
  local customer = customer_of(connection, key)
  local credentials = customer and credentials_of(connection, customer, account)
  local balance, cost
  if credentials then
    balance, cost = charge(connection, customer, key, account, ngx.req.get_method(), path)
  end
  connection:set_keepalive(KEPT_MS)
  if not customer then
    return refuse(401, "invalid_key")
  elseif not credentials then
    return refuse(404, "unknown_account")
  elseif not balance then
    return refuse(503, "unavailable")
  elseif balance < 0 then
    return refuse(402, "insufficient_credits")
  end
  local authorization, user, agent = credentials:match("^(.-)\n(.-)\n(.*)$")
  variables.authorization, variables.user, variables.agent = authorization, user, agent
  variables.cost, variables.balance = cost, balance
end

return gate
