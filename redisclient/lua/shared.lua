-- Put before every script but reserve.lua, release.lua, note.lua, forget.lua and loads.lua.
--
-- What is counted in a scope is four kinds of keys in one slot, beside those of prefix.lua:
--   table   string: a head of 16 bytes (epoch 8, generation <I4, owners <I4), then 9 bytes a row: requests <I3, tokens <I6
--   rows    hash: endpoint address -> row
--   owners  sorted set: owner -> when last heard of, in ms of this server's clock
--   own     hash, one per owner: "b" -> epoch it counts in; "n" -> when that began;
--           lease id -> row <I2, tokens <I4, version B; "" is a tombstone
-- The totals in the table are the sum of the leases of all owners, because every script changes both or none. The epoch
-- says which life of the table a lease counts in; the generation changes when a row is given to another address.
local HEAD, ROW, FREE_ABOVE, MOST = 16, 9, 64, 65000

-- load returns requests and tokens of a row.
local function load(tablekey, row)
  return struct.unpack('<I3I6', redis.call('GETRANGE', tablekey, HEAD + ROW * row, HEAD + ROW * row + ROW - 1))
end

-- add changes the load of a row, never below 0.
local function add(tablekey, row, requests, tokens)
  local r, k = load(tablekey, row)
  redis.call('SETRANGE', tablekey, HEAD + ROW * row,
    struct.pack('<I3I6', math.max(0, r + requests), math.max(0, k + tokens)))
end

-- now returns this server's time in ms.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- stamp returns this server's time in 8 bytes.
local function stamp()
  local t = redis.call('TIME')
  return struct.pack('>I4I4', tonumber(t[1]), tonumber(t[2]))
end

-- put counts a lease as it is now, unless it is counted in this version or a later one. Returns 1 if it was not. Changes of a
-- lease may be late, and arrive in any order.
local function put(tablekey, own, id, row, tokens, version)
  local lease = redis.call('HGET', own, id)
  if lease and lease ~= '' then
    local from, old, v = struct.unpack('<I2I4B', lease)
    local ahead = (version - v) % 256
    if ahead == 0 or ahead > 127 then return 0 end
    add(tablekey, from, -1, -old)
  end
  add(tablekey, row, 1, tokens)
  redis.call('HSET', own, id, struct.pack('<I2I4B', row, tokens, version))
  return 1
end

-- roll notes in the table how many owners there are.
local function roll(tablekey, owners)
  redis.call('SETRANGE', tablekey, 12, struct.pack('<I4', redis.call('ZCARD', owners)))
end

-- renew begins a new life of the table and returns its epoch. Every owner asserts its leases at its next beat.
local function renew(tablekey, rowskey)
  local epoch = stamp()
  redis.call('SET', tablekey, epoch .. string.rep('\0', HEAD - 8))
  redis.call('DEL', rowskey)
  return epoch
end

-- whole says whether everything is there that is needed to take back what the table counts. Redis may lose keys one by
-- one, as it evicts them when memory is short.
local function whole(tablekey, rowskey, owners, own, owner)
  local head = redis.call('GETRANGE', tablekey, 0, HEAD - 1)
  if head == '' or struct.unpack('<I4', head, 13) ~= redis.call('ZCARD', owners) then return false end
  if redis.call('STRLEN', tablekey) > HEAD and redis.call('EXISTS', rowskey) == 0 then return false end
  return redis.call('HEXISTS', own, 'b') == 1 or not redis.call('ZSCORE', owners, owner)
end

-- enter makes the owner count in the table's present life, and returns its epoch. Leases of an earlier life are void.
-- The owner's keys outlive the table, so that no count in it can lose its lease.
local function enter(tablekey, rowskey, owners, own, owner, keep)
  redis.call('PEXPIRE', own, 2 * keep)
  local epoch = redis.call('GETRANGE', tablekey, 0, 7)
  if not whole(tablekey, rowskey, owners, own, owner) then epoch = renew(tablekey, rowskey) end
  local mark = redis.call('HGET', own, 'b')
  if mark ~= epoch then
    if mark then redis.call('DEL', own) end
    redis.call('HSET', own, 'b', epoch, 'n', stamp())
    redis.call('PEXPIRE', own, 2 * keep)
  end
  redis.call('ZADD', owners, now(), owner)
  roll(tablekey, owners)
  redis.call('PEXPIRE', owners, 2 * keep)
  redis.call('PEXPIRE', tablekey, keep)
  return epoch
end

-- free returns the rows without an address. With reclaim it takes idle rows from addresses that are not wanted, and a
-- new generation makes every list of candidates that names them void.
local function free(tablekey, rowskey, wanted, count, reclaim)
  local known, used, out = redis.call('HGETALL', rowskey), {}, {}
  local keep = {}
  for i = 1, #wanted do keep[wanted[i]] = true end
  for i = 1, #known, 2 do
    local addr, row = known[i], tonumber(known[i + 1])
    if reclaim and not keep[addr] and load(tablekey, row) == 0 then
      redis.call('HDEL', rowskey, addr)
    else
      used[row] = true
    end
  end
  for row = count - 1, 0, -1 do
    if not used[row] then out[#out + 1] = row end
  end
  if reclaim then
    local generation = struct.unpack('<I4', redis.call('GETRANGE', tablekey, 8, 11))
    redis.call('SETRANGE', tablekey, 8, struct.pack('<I4', (generation + 1) % 2 ^ 32))
  end
  return out
end

-- rows returns the row of each address, and gives rows to those that have none; nil when there is no room. With tidy,
-- addrs is a whole cluster, and once others have many rows they lose those that are idle.
local function rows(tablekey, rowskey, addrs, keep, tidy)
  local found, missing = {}, {}
  for from = 1, #addrs, 1000 do
    local part = redis.call('HMGET', rowskey, unpack(addrs, from, math.min(from + 999, #addrs)))
    for j = 1, #part do
      found[from + j - 1] = part[j] and tonumber(part[j])
      if not part[j] then missing[#missing + 1] = from + j - 1 end
    end
  end
  if #missing > 0 then
    local count = (redis.call('STRLEN', tablekey) - HEAD) / ROW
    local known, spare = redis.call('HLEN', rowskey), {}
    local reclaim = tidy and known > FREE_ABOVE + 2 * #addrs
    if reclaim or count > known then spare = free(tablekey, rowskey, addrs, count, reclaim) end
    if count + #missing - #spare > MOST then return nil end
    local given = {} -- an address may be asked for twice
    for _, i in ipairs(missing) do
      local row = given[addrs[i]] or table.remove(spare)
      if not row then
        row, count = count, count + 1
        redis.call('SETRANGE', tablekey, HEAD + ROW * row, string.rep('\0', ROW))
      end
      if not given[addrs[i]] then redis.call('HSET', rowskey, addrs[i], row) end
      found[i], given[addrs[i]] = row, row
    end
  end
  redis.call('PEXPIRE', rowskey, keep)
  return found
end
