-- Put before every script but reserve.lua, release.lua, note.lua, forget.lua and loads.lua.
--
-- What is counted in a scope is six kinds of keys in one slot, beside those of prefix.lua:
--   table   string: a head of 16 bytes (epoch 8, generation <I4, owners <I4), then 9 bytes a row: requests <I3, tokens <I6
--   rows    hash: endpoint address -> row; "" -> the spare rows, <I2 each
--   listed  string: of each row, when it was last on a list that was sent, <I4, in s of this server's clock
--   owners  sorted set: owner -> when last heard of, in ms of this server's clock
--   own     hash, one per owner: "b" -> epoch it counts in; "n" -> since when none of its leases was returned;
--           "c" -> up to where they were, if it was dead; lease id -> row <I2, tokens <I4, version B; "" is a tombstone
--   turn    string: the owner that returns the leases of dead ones
-- The totals in the table are the sum of the leases of all owners, because every script changes both or none. The epoch
-- says which life of the table a lease counts in; the generation changes when a row is given to another address.
local HEAD, ROW, MOST = 16, 9, 65000

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
  redis.call('UNLINK', rowskey)
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
    if mark then redis.call('UNLINK', own) end
    redis.call('HSET', own, 'b', epoch, 'n', stamp())
    redis.call('PEXPIRE', own, 2 * keep)
  end
  redis.call('ZADD', owners, now(), owner)
  roll(tablekey, owners)
  redis.call('PEXPIRE', owners, 2 * keep)
  redis.call('PEXPIRE', tablekey, keep)
  return epoch
end

-- rows returns the row of each address, and gives rows to those that have none, spare ones first; nil when there is no
-- room. Then how many it gave, and how many addresses have rows now.
local function rows(tablekey, rowskey, addrs, keep)
  local found, missing, given, reused = redis.call('HMGET', rowskey, unpack(addrs)), {}, {}, {}
  for i = 1, #addrs do
    if not found[i] and not given[addrs[i]] then -- an address may be asked for twice
      missing[#missing + 1], given[addrs[i]] = addrs[i], 0
    end
  end
  local count, spare = (redis.call('STRLEN', tablekey) - HEAD) / ROW, redis.call('HGET', rowskey, '') or ''
  local left = math.max(0, #spare - 2 * #missing)
  if count + #missing - (#spare - left) / 2 > MOST then return nil end
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
