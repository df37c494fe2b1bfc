-- Put before reserve.lua where a request comes with the blocks of its prompt, and before forget.lua.
--
-- Which endpoints have which blocks in their caches is kept in runs of adjacent blocks, one string for each, whose key ends with
-- the key of its first block. A run is a list of entries, at most MOST, those that were written last in front:
--
--   the block's key 8 bytes, then for each of up to 4 endpoints, the one that came last in front:
--   the endpoint 4 bytes (the lower half of the hash of its address, 0 for none), when it was last seen there <I2, in ticks
--
-- A run that is not written is kept for as long as endpoints are taken to keep what they have. A tick is 4 s of this server's
-- clock. Ticks wrap after three days: in a run that was written all the while, who was not noted for so long may then be taken
-- for young, which costs one wrong guess. An endpoint is not noted again for FRESH ticks: what all prompts begin with would be
-- written by each.
local ENTRY, MOST, TICK, FRESH = 32, 64, 4, 8
local NONE, EMPTY = string.rep('\0', 4), string.rep('\0', 24)
local byte, find, sub = string.byte, string.find, string.sub

-- seek returns where in the run the block's entry is, nil if it is not there.
local function seek(run, key)
  local at = find(run, key, 1, true)
  while at and at % ENTRY ~= 1 do at = find(run, key, at + 1, true) end
  return at and at + ENTRY - 1 <= #run and at or nil
end

-- holding returns the endpoints of an entry that were seen not too long ago.
local function holding(holders, now, oldest)
  local list = {}
  for i = 1, 19, 6 do
    local endpoint = sub(holders, i, i + 3)
    if endpoint ~= NONE and (now - struct.unpack('<I2', holders, i + 4)) % 65536 <= oldest then list[#list + 1] = endpoint end
  end
  return list
end

-- recall looks for the prompt's blocks in its runs. It returns where their entries are, and for each endpoint which of the blocks
-- is the last that it has, nil if nobody has any. Who has a block has all before it too: it computed them to get there, and
-- engines drop the ends of prompts first. The search ends at a run of which nothing is known.
local function recall(runs, counts, blocks, now, oldest)
  local places, deepest, lists, known, n = {}, nil, {}, true, 0
  for r = 1, #counts do
    local run, last, found = runs[r], n + byte(counts, r), false
    if run then
      local next, length = 1, #run
      for k = n + 1, last do
        local key, at = sub(blocks, 8 * k - 7, 8 * k), next
        -- What was written together lies together.
        if sub(run, at, at + 7) ~= key or at + ENTRY - 1 > length then at = seek(run, key) end
        if at then
          places[k], next = at, at + ENTRY
          if known then
            local holders = sub(run, at + 8, at + 31)
            local list = lists[holders] or holding(holders, now, oldest)
            lists[holders], deepest = list, deepest or {}
            for i = 1, #list do deepest[list[i]], found = k, true end
          end
        end
      end
    end
    known, n = known and found, last
  end
  return places, deepest
end

-- credits returns by how much candidates cost less for what they have, and how many blocks that is; nil if none has any. hashes
-- is where in the view their hashes begin, whole what it is worth to have the whole prompt.
local function credits(deepest, ends, view, hashes, whole, length)
  local credit, cached
  for endpoint, k in pairs(deepest) do
    local at = find(view, endpoint, hashes, true)
    while at do
      if (at - hashes) % 4 == 0 then
        local i = (at - hashes) / 4
        credit, cached = credit or {}, cached or {}
        credit[i], cached[i] = whole * (struct.unpack('<I4', ends, 4 * k - 3) / length), k
      end
      at = find(view, endpoint, at + 1, true)
    end
  end
  return credit, cached
end

-- noting returns the holders with the endpoint in front, false if nothing has to change: it was noted a moment ago, or as many
-- others were.
local function noting(holders, endpoint, now)
  local place = 18 -- whose place it takes
  for i = 0, 18, 6 do
    local holder = sub(holders, i + 1, i + 4)
    local young = holder ~= NONE and (now - struct.unpack('<I2', holders, i + 5)) % 65536 < FRESH
    if young and (holder == endpoint or i == 18) then return false end
    if holder == endpoint or holder == NONE then
      place = i
      break
    end
  end
  return endpoint .. struct.pack('<I2', now) .. sub(holders, 1, place) .. sub(holders, place + 7)
end

-- rewrite returns the run with the given blocks and holders in front, without what was at the given places. All of the prompt
-- comes to the front of a run that changes, lest its beginning, which others share, be pushed out by the ends of those.
local function rewrite(run, blocks, from, holders, places)
  local front, moved = {}, run and {}
  for i = 1, #holders do
    local k = from + i
    front[i] = sub(blocks, 8 * k - 7, 8 * k) .. holders[i]
    if run then moved[places[k] or 0] = true end
  end
  if not run then return table.concat(front) end
  local rest = 1
  for at = 1, #run, ENTRY do
    if moved[at] then
      if rest < at then front[#front + 1] = sub(run, rest, at - 1) end
      rest = at + ENTRY
    end
  end
  front[#front + 1] = sub(run, rest)
  return sub(table.concat(front), 1, MOST * ENTRY)
end

-- note remembers that the endpoint has the prompt, whose entries were at the given places. The key of run r is keys[first + r].
local function note(keys, first, runs, counts, blocks, places, endpoint, now, ttl)
  local anew, n = {}, 0 -- holders -> with the endpoint, false if they stay as they are
  for r = 1, #counts do
    local run, last, noted, changed = runs[r], n + byte(counts, r), {}, false
    for k = n + 1, last do
      local at = places[k]
      local holders = at and sub(run, at + 8, at + 31) or EMPTY
      local with = anew[holders]
      if with == nil then
        with = noting(holders, endpoint, now)
        anew[holders] = with
      end
      noted[k - n], changed = with or holders, changed or with
    end
    if changed then redis.call('SET', keys[first + r], rewrite(run, blocks, n, noted, places), 'PX', ttl) end
    n = last
  end
end
