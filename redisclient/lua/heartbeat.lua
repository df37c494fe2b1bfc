-- Renews an owner and its lists of candidates, returns leases of dead owners, and reports which leases the owner has.
-- It also ends tasks (sweep.lua). One call does a part of that, so that others need not wait long: it returns at most
-- BATCH leases, or reports about REPORT. While there is more to do, the owner calls again. What dead owners had becomes
-- free for those that wait.
--
-- KEYS     table rows owners own turn list...
-- ARGV     owner ttl_ms keep_ms list_ms own_prefix cursor
--   ttl_ms      an owner without a heartbeat for so long is dead
--   own_prefix  followed by an owner's name, the key of its leases
--   cursor      where the report continues: 0, then as the last call returned it
-- Returns  {1 if there is more to do, else 0; number of owners; since when none of the owner's leases was returned;
--          cursor; ids of leases; ids of tombstones; ids of waiting requests; the beginning of the queue; the
--          grants (queue.lua), if there are some}: ids have 8 bytes each
--@use shared budget_key queue sweep
local BATCH, REPORT, OWNER = 160, 320, 16 -- a dead owner is as much work as OWNER leases
local keep, lost, left, base = tonumber(ARGV[3]), false, BATCH, string.sub(KEYS[1], 1, -6)
local queue, freed = nil, {} -- rows of which something was returned
local epoch = enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], keep)
redis.call('PEXPIRE', KEYS[2], keep)
local tick = struct.pack('<I2', math.floor(time_ms() / 4000) % 65536)
for i = 6, #KEYS do
  if redis.call('PEXPIRE', KEYS[i], ARGV[4]) == 1 then redis.call('SETRANGE', KEYS[i], 16, tick) end
end
-- If the clock was set back, the last heartbeats of some owners are in the future: they become now.
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. time_ms(), '+inf', 'LIMIT', 0, 100)) do
  redis.call('ZADD', KEYS[3], time_ms(), owner)
end

-- leave_all removes all tickets of an owner from a flow.
local function leave_all(name, owner)
  local f = queue.flows[name]
  local s = f and queue.text(f) or ''
  queue.read_clock()
  for at = #s - 84, 1, -85 do
    if string.sub(s, at + 8, at + 23) == owner then queue.remove(f, at) end
  end
end

-- return_leases returns leases of a dead owner, as many as this call still may. The rest stays counted until a later
-- call returns it. If the owner comes back before that, it sees by mark n that some were returned, and asserts all of
-- them.
local function return_leases(owner)
  local own = ARGV[5] .. owner
  local marks, ids, requests, tokens = redis.call('HMGET', own, 'b', 'n', 'c', 'g'), {}, {}, {}
  local flows = {}
  local rest = 0
  if marks[1] == epoch then -- else they are not counted
    local part = redis.call('HSCAN', own, marks[3] or '0', 'COUNT', left)
    local entries, cursor = part[2], part[1]
    for i = 1, #entries, 2 do
      if #entries[i] == 8 and #ids == left then
        cursor = marks[3] or '0' -- HSCAN returns all of a small hash, whatever its COUNT
        break
      elseif #entries[i] == 8 then
        ids[#ids + 1] = entries[i]
        if #entries[i + 1] > 8 then
          flows[string.sub(entries[i + 1], 2)] = true
        elseif entries[i + 1] ~= '' then
          local row, k = struct.unpack('<I2I4', entries[i + 1])
          requests[row], tokens[row] = (requests[row] or 0) + 1, (tokens[row] or 0) + k
        end
      end
    end
    for row, n in pairs(requests) do
      add(KEYS[1], row, -n, -tokens[row])
      freed[#freed + 1] = row
    end
    if #ids > 0 then redis.call('HDEL', own, unpack(ids)) end
    for flow in pairs(flows) do
      queue = queue or open_queue(KEYS[1], epoch, ARGV[1])
      leave_all(flow, string.format('%16s', owner))
    end
    rest = redis.call('HLEN', own)
    for i = 1, 4 do rest = rest - (marks[i] and 1 or 0) end
    if rest > 0 then redis.call('HSET', own, 'n', stamp(), 'c', cursor) end
  end
  if rest == 0 then
    redis.call('UNLINK', own)
    redis.call('ZREM', KEYS[3], owner)
    redis.call('ZREM', base .. 'lives', owner)
    redis.call('HDEL', base .. 'untold', owner)
  end
  lost, left = lost or not marks[1], left - OWNER - #ids
end

local tasks_left = false
if redis.call('EXISTS', base .. 'tasks') == 1 then
  freed, tasks_left, lost = sweep_tasks(KEYS[1], KEYS[2], epoch, keep)
end

-- One owner at a time returns leases of others: if all did, requests would wait behind all of them.
local dead = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', time_ms() - tonumber(ARGV[2]), 'LIMIT', 0, OWNER)
local mine = #dead > 0 and (redis.call('SET', KEYS[5], ARGV[1], 'NX', 'PX', 100) or
  redis.call('GETRANGE', KEYS[5], 0, -1) == ARGV[1])
if mine then
  for _, owner in ipairs(dead) do
    if left > 0 then return_leases(owner) end
  end
  if left > 0 then redis.call('UNLINK', KEYS[5]) else redis.call('PEXPIRE', KEYS[5], 100) end
  store_owner_count(KEYS[1], KEYS[3])
end
if lost then
  begin_epoch(KEYS[1], KEYS[2])
  enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], keep)
end
if not lost and (mine or #freed > 0) and string.byte(redis.call('GETRANGE', KEYS[1], 15, 15)) > 0 then
  queue = queue or open_queue(KEYS[1], epoch, ARGV[1])
  queue.dispatch(freed)
  queue.save()
end
local leases, tombstones, waiting, part = {}, {}, {}, {ARGV[6], {}}
if left == BATCH then part = redis.call('HSCAN', KEYS[4], ARGV[6], 'COUNT', REPORT) end
local own = part[2]
for i = 1, #own, 2 do
  local ids = own[i + 1] == '' and tombstones or #own[i + 1] > 8 and waiting or leases
  if #own[i] == 8 then ids[#ids + 1] = own[i] end
end
return {(tasks_left or left < BATCH or part[1] ~= '0') and 1 or 0, redis.call('ZCARD', KEYS[3]),
  redis.call('HGET', KEYS[4], 'n'), part[1], table.concat(leases), table.concat(tombstones), table.concat(waiting),
  redis.call('GETRANGE', base .. 'queue', 0, 1359), queue and queue.grants()}
