-- The work of a metering gateway in nginx: it identifies the caller and the account and charges the
-- credits; then it sets the credentials and nginx forwards the call. Keys and accounts are cached
-- in memory that all workers share. When a call has ended, its row goes to the log, together with
-- those of other calls that ended during the previous write.
local redis = require "nginx.redis"

local CACHE_S = 60
local POOL = { pool_size = 128, backlog = 16384 }
local KEPT_MS = 3600000

local gate = {}
local spend, spend_sha
-- Rows of ended calls, and whether a write is running: each worker has its own.
local rows, is_writing = {}, false

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

-- The credentials as one text, one part per line.
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

local function charge(connection, customer, method)
  local cost = method == "GET" and 1 or 2
  local balance_key = "balance:" .. customer
  local balance, failure = connection:evalsha(spend_sha, 1, balance_key, cost)
  if not balance and failure and failure:find("NOSCRIPT", 1, true) then
    balance, failure = connection:eval(spend, 1, balance_key, cost)
  end
  if not balance then
    ngx.log(ngx.ERR, "redis: ", failure)
  end
  return balance, cost
end

-- Called before the call is forwarded. `port` is the port of Redis.
function gate.access(port)
  local variables = ngx.var
  local key = variables.http_x_api_key
  if not key then
    return refuse(401, "missing_key")
  end
  local account = variables.account
  local connection = open(port)
  if not connection then
    return refuse(503, "unavailable")
  end
  local customer = customer_of(connection, key)
  local credentials = customer and credentials_of(connection, customer, account)
  local balance, cost
  if credentials then
    balance, cost = charge(connection, customer, ngx.req.get_method())
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
  ngx.ctx.customer = customer
end

-- Writes rows until there are none left, all available rows at a time.
local function write(is_ending, port)
  while #rows > 0 do
    local batch = rows
    rows = {}
    local connection = open(port)
    if not connection then
      break
    end
    connection:init_pipeline(#batch)
    for _, row in ipairs(batch) do
      connection:xadd(unpack(row))
    end
    local written, failure = connection:commit_pipeline()
    if not written then
      ngx.log(ngx.ERR, "redis: ", failure)
      break
    end
    connection:set_keepalive(KEPT_MS)
  end
  is_writing = false
end

-- Called when the call has ended.
function gate.log(port)
  local customer = ngx.ctx.customer
  if not customer then
    return
  end
  local variables = ngx.var
  rows[#rows + 1] = {
    "calls:" .. customer, "*", "key", variables.http_x_api_key, "account", variables.account,
    "method", variables.request_method, "path", variables.path, "cost", variables.cost,
    "status", variables.status, "ms", variables.request_time, "upstream_ms", variables.upstream_response_time,
  }
  if not is_writing then
    is_writing = ngx.timer.at(0, write, port)
  end
end

return gate
