-- What is in Redis for a scope, and functions that change it.
--
-- The counts of a scope are in the following keys, all in one slot of a Redis Cluster, as are those of prefix.lua,
-- budget.lua, tenant.lua and tasks.lua, and the lists of candidates.lua:
--   table   string: a head of 16 bytes (epoch 8 bytes, generation <I4, number of owners <I3, and B: 1 while requests
--           wait, see queue.lua), then 9 bytes for each row: requests <I3, tokens <I6
--   rows    hash: endpoint address -> row; "" -> the free rows, <I2 each
--   listed  string: for each row when it was last on a list of candidates that was sent, <I4, in s of this server's
--           clock
--   owners  sorted set: owner -> time of its last heartbeat, in ms of this server's clock
--   own     hash, one for each owner: "b" -> the epoch in which its leases count; "n" -> since when none of its leases
--           was returned; "c" -> the cursor up to which they were returned, if it was dead; lease id -> row <I2, tokens
--           <I4, version B, or "" for a tombstone; and what queue.lua describes
--   turn    string: the owner that currently returns the leases of dead owners
--   tasks   hash, and expiry, a sorted set: see tasks.lua. While there are some, the table's number of owners is larger
--           by 2^22, so that it is noticed when they are lost
-- The totals in the table are the sum of the leases of all owners, because every script changes both or neither. Leases
-- of another epoch than the table's are void. The generation changes when rows are freed for other addresses.
--@use time
local HEAD, ROW, MAX_ROWS = 16, 9, 65000

-- load returns the requests and tokens of a row.
local function load(tablekey, row)
  return struct.unpack('<I3I6', redis.call('GETRANGE', tablekey, HEAD + ROW * row, HEAD + ROW * row + ROW - 1))
end

-- add changes the load of a row, never below 0.
local function add(tablekey, row, requests, tokens)
  local r, k = load(tablekey, row)
  redis.call('SETRANGE', tablekey, HEAD + ROW * row,
    struct.pack('<I3I6', math.max(0, r + requests), math.max(0, k + tokens)))
end

-- stamp returns this server's time in 8 bytes.
local function stamp()
  local t = redis.call('TIME')
  return struct.pack('>I4I4', tonumber(t[1]), tonumber(t[2]))
end

-- put_lease counts a lease with the given row and tokens, unless it is counted already in this version or a later one:
-- changes of a lease may arrive in any order. It returns 1 if it changed something, else 0.
local function put_lease(tablekey, own, id, row, tokens, version)
  local lease = redis.call('HGET', own, id)
  if lease and lease ~= '' and #lease < 9 then
    local from, old, v = struct.unpack('<I2I4B', lease)
    local ahead = (version - v) % 256
    if ahead == 0 or ahead > 127 then return 0 end
    add(tablekey, from, -1, -old)
  end
  add(tablekey, row, 1, tokens)
  redis.call('HSET', own, id, struct.pack('<I2I4B', row, tokens, version))
  return 1
end

-- owner_count returns the number of owners as it is in the table.
local function owner_count(tablekey, owners)
  return redis.call('ZCARD', owners) + 4194304 * redis.call('EXISTS', string.sub(tablekey, 1, -6) .. 'tasks')
end

-- store_owner_count writes the number of owners into the table.
local function store_owner_count(tablekey, owners)
  redis.call('SETRANGE', tablekey, 12, struct.pack('<I3', owner_count(tablekey, owners)))
end

-- begin_epoch begins a new epoch with an empty table, and returns it. Every owner asserts its leases at its next
-- heartbeat.
local function begin_epoch(tablekey, rowskey)
  local epoch = stamp()
  redis.call('SET', tablekey, epoch .. string.rep('\0', HEAD - 8))
  redis.call('UNLINK', rowskey)
  return epoch
end

-- complete returns whether all keys are there that are needed to release what the table counts. Redis may lose single
-- keys, when it evicts them because memory is short.
local function complete(tablekey, rowskey, owners, own, owner)
  local head = redis.call('GETRANGE', tablekey, 0, HEAD - 1)
  if head == '' or struct.unpack('<I3', head, 13) ~= owner_count(tablekey, owners) then return false end
  if redis.call('STRLEN', tablekey) > HEAD and redis.call('EXISTS', rowskey) == 0 then return false end
  return redis.call('HEXISTS', own, 'b') == 1 or not redis.call('ZSCORE', owners, owner)
end

-- enter makes the owner one of the table's present epoch, and returns that. Its leases of an earlier epoch are void.
-- The owner's keys live longer than the table, so that the table never counts a lease that is gone.
local function enter(tablekey, rowskey, owners, own, owner, keep)
  redis.call('PEXPIRE', own, 2 * keep)
  local epoch = redis.call('GETRANGE', tablekey, 0, 7)
  if not complete(tablekey, rowskey, owners, own, owner) then epoch = begin_epoch(tablekey, rowskey) end
  local mark = redis.call('HGET', own, 'b')
  if mark ~= epoch then
    if mark then redis.call('UNLINK', own) end
    redis.call('HSET', own, 'b', epoch, 'n', stamp())
    redis.call('PEXPIRE', own, 2 * keep)
  end
  redis.call('ZADD', owners, time_ms(), owner)
  store_owner_count(tablekey, owners)
  redis.call('PEXPIRE', owners, 2 * keep)
  redis.call('PEXPIRE', tablekey, keep)
  return epoch
end

-- rows returns the row of each address, and gives rows to those that have none, free ones first; nil if there are not
-- enough. It also returns how many rows it gave, and how many addresses have rows now.
local function rows(tablekey, rowskey, addrs, keep)
  local found, missing, given, reused = redis.call('HMGET', rowskey, unpack(addrs)), {}, {}, {}
  for i = 1, #addrs do
    if not found[i] and not given[addrs[i]] then -- an address may be there twice
      missing[#missing + 1], given[addrs[i]] = addrs[i], 0
    end
  end
  local count, spare = (redis.call('STRLEN', tablekey) - HEAD) / ROW, redis.call('HGET', rowskey, '') or ''
  local left = math.max(0, #spare - 2 * #missing)
  if count + #missing - (#spare - left) / 2 > MAX_ROWS then return nil end
  for at = left + 1, #spare, 2 do reused[#reused + 1] = struct.unpack('<I2', spare, at) end
  table.sort(reused)
  local set = #reused > 0 and {'', string.sub(spare, 1, left)} or {}
  for i, addr in ipairs(missing) do
    given[addr] = reused[i] or count + i - #reused - 1
    set[#set + 1], set[#set + 2] = addr, given[addr]
  end
  if #missing > #reused then
    redis.call('SETRANGE', tablekey, HEAD + ROW * count, string.rep('\0', ROW * (#missing - #reused)))
  end
  if #missing > 0 then redis.call('HSET', rowskey, unpack(set)) end
  for i = 1, #addrs do found[i] = tonumber(found[i] or given[addrs[i]]) end
  redis.call('PEXPIRE', rowskey, keep)
  return found, #missing, math.max(count, count + #missing - #reused) - left / 2
end
