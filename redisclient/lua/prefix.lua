-- Put before reserve.lua where a request comes with the blocks of its prompt, and before note.lua and forget.lua.
--
-- Which endpoints have which blocks in their caches is kept in pages, of which a scope has a fixed number. The blocks of a prompt
-- are cut into runs, and those of one run are in one page, which lb.AppendRuns names after the first of them, together with those of
-- others. A page is a string of at most 63 entries, those that were written last in front:
--
--   the block's key 8 bytes, of which the last is its tenant, 0 for none, then for each of up to 4 endpoints, the one that came
--   last in front: the endpoint 4 bytes (the lower half of the hash of its address, 0 for none), when it was last seen there <I2,
--   in ticks
--
-- A page that is not written is kept for as long as endpoints are taken to keep what they have. A tick is 4 s of this server's
-- clock. Ticks wrap after three days: in a page that was written all the while, who was not noted for so long may then be taken
-- for young, which costs one wrong guess. An endpoint is not noted again for 8 ticks: what all prompts begin with would be
-- written by each.
--
-- A script's functions are made anew whenever it runs, and what they find outside costs again. So they are few, and have names and
-- numbers of their own: 32 bytes are an entry, 2016 bytes the 63 entries that a page may have.

-- seek returns where in the page the block's entry is, nil if it is not there.
local function seek(page, key)
  local find = string.find
  local at = find(page, key, 1, true)
  while at and at % 32 ~= 1 do at = find(page, key, at + 1, true) end
  return at and at + 31 <= #page and at or nil
end

-- shorter returns after how many ticks endpoints no longer count that keep less than the others: what is behind the numbers in the
-- terms of a reservation, nil if there is nothing.
local function shorter(terms)
  if #terms <= 32 then return nil end
  local less = {}
  for at = 33, #terms, 6 do less[string.sub(terms, at, at + 3)] = struct.unpack('<I2', terms, at + 4) end
  return less
end

-- recall looks for the prompt's blocks in its pages, of which that of run r is pages[first + r]. It returns where the entries of
-- blocks are and who holds them, and for each endpoint which of the blocks is the last that it has, nil if nobody has any. Who has a
-- block has all before it too: it computed them to get there, and engines drop the ends of prompts first. The search ends at a
-- run of which nothing is known.
local function recall(pages, first, counts, blocks, now, oldest, less)
  local byte, sub = string.byte, string.sub
  local places, held, deepest, lists, known, n = {}, {}, nil, {}, true, 0
  for r = 1, #counts do
    local page, last, found = pages[first + r], n + byte(counts, r), false
    if page then
      local next, length = 1, #page
      for k = n + 1, last do
        local key, at = sub(blocks, 8 * k - 7, 8 * k), next
        -- What was written together lies together.
        if sub(page, at, at + 7) ~= key or at + 31 > length then at = seek(page, key) end
        if at then
          local holders = sub(page, at + 8, at + 31)
          places[k], held[k], next = at, holders, at + 32
          if known then
            local list = lists[holders]
            if not list then -- of those that were seen not too long ago
              list, deepest = {}, deepest or {}
              for i = 1, 19, 6 do
                local endpoint = sub(holders, i, i + 3)
                local age = (now - struct.unpack('<I2', holders, i + 4)) % 65536
                if endpoint ~= '\0\0\0\0' and age <= (less and less[endpoint] or oldest) then list[#list + 1] = endpoint end
              end
              lists[holders] = list
            end
            for i = 1, #list do deepest[list[i]], found = k, true end
          end
        end
      end
    end
    known, n = known and found, last
  end
  return places, held, deepest
end

-- credits returns by how much candidates cost less for what they have, and how many blocks that is; nil if none has any. hashes
-- is where in the view their hashes begin, worths what it is worth to have the first blocks, up to each, whole what that is for length.
local function credits(deepest, worths, view, hashes, whole, length)
  local find, credit, cached = string.find, nil, nil
  for endpoint, k in pairs(deepest) do
    local at = find(view, endpoint, hashes, true)
    while at do
      if (at - hashes) % 4 == 0 then
        local i = (at - hashes) / 4
        credit, cached = credit or {}, cached or {}
        credit[i], cached[i] = whole * (struct.unpack('<I4', worths, 4 * k - 3) / length), k
      end
      at = find(view, endpoint, at + 1, true)
    end
  end
  return credit, cached
end

-- shrink returns the page without what is too much in it. One entry after the other goes, the last one of those tenants that have
-- most: so tenants share a full page, and none can push out what another remembers as long as it has more itself. What no tenant
-- has claimed counts as one more tenant's.
local function shrink(page)
  local byte, sub = string.byte, string.sub
  page = sub(page, 1, #page - #page % 32) -- nobody writes parts of entries
  local over = #page / 32 - 63
  if over <= 0 then return page end
  local count, have, share, above, room = {}, {}, 0, 0, -over -- entries by tenant, tenants by entries
  for at = 8, #page, 32 do
    local t = byte(page, at)
    count[t] = (count[t] or 0) + 1
  end
  if count[byte(page, 8)] == #page / 32 then return sub(page, 1, 2016) end -- all are of one
  for _, n in pairs(count) do have[n], share = (have[n] or 0) + 1, math.max(share, n) end
  while room < 0 do -- Those above their share are left with it, and with one more as long as there is room.
    above, share = above + (have[share] or 0), share - 1
    room = room + above
  end
  local parts, stop, at = {}, #page, #page - 31
  while over > 0 do
    local t = byte(page, at + 7)
    local n = count[t] - share
    if n > 1 or n == 1 and above > room then
      table.insert(parts, 1, sub(page, at + 32, stop))
      count[t], over, stop = count[t] - 1, over - 1, at - 1
      if n == 1 then above = above - 1 end
    end
    at = at - 32
  end
  return sub(page, 1, stop) .. table.concat(parts)
end

-- rewrite returns the page with the blocks from number n + 1 to the last in front, as they were before but for what is in anew by
-- holders. All of a prompt comes to the front of a page that changes, lest its beginning, which others share, be pushed out by the
-- ends of those.
local function rewrite(page, blocks, n, last, places, held, anew, fresh)
  local sub, parts, moved, from = string.sub, {}, {}, 1
  for k = n + 1, last do
    local holders = held[k]
    parts[k - n] = sub(blocks, 8 * k - 7, 8 * k) .. (holders and (anew[holders] or holders) or fresh)
    moved[#moved + 1] = places[k]
  end
  table.sort(moved)
  for i = 1, #moved do
    if from < moved[i] then parts[#parts + 1] = sub(page, from, moved[i] - 1) end
    from = moved[i] + 32
  end
  parts[#parts + 1] = sub(page, from)
  return table.concat(parts)
end

-- noting returns the holders with the endpoint in front, false if nothing has to change: it was noted a moment ago, or as many
-- others were. mark is the endpoint and when that is.
local function noting(holders, endpoint, mark, now)
  local sub, place = string.sub, 18 -- whose place it takes
  for i = 0, 18, 6 do
    local holder = sub(holders, i + 1, i + 4)
    local none = holder == '\0\0\0\0'
    local young = not none and (now - struct.unpack('<I2', holders, i + 5)) % 65536 < 8
    if young and (holder == endpoint or i == 18) then return false end
    if none or holder == endpoint then
      place = i
      break
    end
  end
  return mark .. sub(holders, 1, place) .. sub(holders, place + 7)
end

-- note remembers that the endpoint has the prompt, for which recall was called. The page of run r is pages[first + r], and its key is
-- keys[first + r].
local function note(keys, first, pages, counts, blocks, places, held, endpoint, now, ttl)
  local byte, gsub, mark, n = string.byte, string.gsub, endpoint .. struct.pack('<I2', now), 0
  local fresh, anew, entry = mark .. string.rep('\0', 18), {}, nil -- anew: holders with the endpoint, false if they stay
  for r = 1, #counts do
    local last, page, some, changed = n + byte(counts, r), pages[first + r], false, false
    for k = n + 1, last do
      local holders = held[k]
      if holders then
        local with = anew[holders]
        if with == nil then
          with = noting(holders, endpoint, mark, now)
          anew[holders] = with
        end
        some, changed = true, changed or with
      else
        changed = true
      end
    end
    if changed then
      local value
      if some then
        value = rewrite(page, blocks, n, last, places, held, anew, fresh)
      else
        entry = entry or '%0' .. gsub(fresh, '%%', '%%%%')
        value = gsub(string.sub(blocks, 8 * n + 1, 8 * last), '........', entry) .. (page or '')
      end
      if #value > 2016 or #value % 32 > 0 then value = shrink(value) end
      redis.call('SET', keys[first + r], value, 'PX', ttl)
    end
    n = last
  end
end
