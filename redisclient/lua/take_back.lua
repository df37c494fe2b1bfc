-- Takes back what silent owners were granted and cannot know of. They reserve again in their old places. stamp is for
-- what these have not fetched yet. It returns whether there is more.
--@use time budget_key budget_correct
--@function take_back(q, tablekey, epoch, stamp)
local LOST = 65534 -- as in queue.lua
local base, left, refunds, more = string.sub(tablekey, 1, -6), 32, {}, false -- left: leases that it may take back yet

-- revoke takes back what an owner was granted, and adds to refunds what that was charged. entries are as in untold, 32
-- at most. It returns how many leases these were.
local function revoke(name, entries)
  local key, ids, gone, out = base .. 'own:' .. name, {}, {}, {}
  for at = 1, #entries, 25 do ids[#ids + 1] = string.sub(entries, at, at + 7) end
  local known = redis.call('HMGET', key, 'b', 'g', unpack(ids))
  for i, id in ipairs(known[1] == epoch and ids or {}) do
    local row, lease = struct.unpack('<I2', entries, 25 * i - 16), known[i + 2]
    if lease and #lease == 8 and struct.unpack('<I2', lease) == row then
      local l, tokens = q.load(row), struct.unpack('<I4', lease, 3)
      l[1], l[2] = math.max(0, l[1] - 1), math.max(0, l[2] - tokens)
      redis.call('SETRANGE', tablekey, 16 + 9 * row, struct.pack('<I3I6', l[1], l[2]))
      known[i + 2] = false
      for k = i + 1, #ids do -- an id is there twice if what was known of it was lost in between
        if ids[k] == id then known[k + 2] = false end
      end
      gone[#gone + 1], out[#out + 1] = id, id .. struct.pack('<I2', LOST) .. string.rep('\0', 15)
      refunds[#refunds + 1] = {row, tokens}
    end
  end
  if #gone > 0 then
    local news = known[2] and #known[2] < 40000 and known[2] or stamp
    redis.call('HDEL', key, unpack(gone))
    redis.call('HSET', key, 'g', news .. table.concat(out))
  end
  return #gone
end

-- targets returns the names of the endpoints with budgets for which requests wait, by their rows.
local function targets()
  local names = {}
  for _, l in ipairs(q.lists) do
    local rows, i = {}, 0
    for at = 1, l.budgets and #l.runs or 0, 14 do
      local from, count = struct.unpack('<I2I2', l.runs, at)
      for row = from, from + count - 1 do rows[#rows + 1] = row end
    end
    for name in string.gmatch(string.sub(l.budgets or '', 40 * #rows + 1), '[^\n]+') do
      i = i + 1
      names[rows[i]] = name
    end
  end
  return names
end

-- refund gives the targets back what they were charged.
local function refund()
  local names, b, now, is_charged = targets(), nil, time_ms(), false
  for _, r in ipairs(next(names) and refunds or {}) do
    b = b or read_budget(base .. 'budget2')
    local o = names[r[1]] and find_target(b, names[r[1]])
    if o then
      correct_target(b.states, o, now, -r[2], -1)
      is_charged = true
    end
  end
  if is_charged then write_budget(base .. 'budget2', b, now) end
end

for _, name in ipairs(redis.call('HKEYS', base .. 'untold')) do
  if left > 0 and q.is_silent(string.format('%16s', name)) then
    local entries = redis.call('HGET', base .. 'untold', name)
    local some = string.sub(entries, 1, 25 * left)
    left = left - revoke(name, some)
    if some == entries then
      redis.call('HDEL', base .. 'untold', name)
    else
      redis.call('HSET', base .. 'untold', name, string.sub(entries, #some + 1))
      left, more = 0, true
    end
  end
end
refund()
return more
