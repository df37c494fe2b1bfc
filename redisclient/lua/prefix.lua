-- Put before reserve.lua where a request comes with the blocks of its prompt, and before note.lua.
--
-- Which endpoints have which blocks in their caches is kept in pages, of which a scope has a fixed number. The blocks of a prompt
-- are cut into runs, and those of one run are in one page, which lb.AppendRuns names after the first of them, together with those of
-- others. A page is a string of at most 63 entries, those that were written last in front:
--
--   the block's key 8 bytes, of which the last is its tenant, 0 for none, then for each of up to 4 endpoints, the one that came
--   last in front: the endpoint 4 bytes (the lower half of the hash of its address, 0 for none), when it was last seen there <I2,
--   in ticks
--
-- What the time is, reservations know from their list of candidates, in which beats note it: TIME would cost as much as
-- two reads. It may be some ticks behind, so what is up to 8 ticks ahead is young.
--
-- A page that is not written is kept for as long as endpoints are taken to keep what they have. A tick is 4 s of this server's
-- clock. Ticks wrap after three days: in a page that was written all the while, who was not noted for so long may then be taken
-- for young, which costs one wrong guess. An endpoint is not noted again for 8 ticks: what all prompts begin with would be
-- written by each.
--
-- A chain is a prompt's blocks: of each run, how many it has, 1 byte; then their keys of 8 bytes, run by run.
--
-- A script's functions are made anew whenever it runs, and so are tables; most prompts are short, and much of what
-- follows is rare. So there are two functions, which make tables when there is something to put into them, and numbers are
-- written out: 32 bytes are an entry, 2016 bytes the 63 entries that a page may have.

-- recall looks for the chain's blocks in its pages, of which that of run r is pages[first + r]. It returns where the
-- entries of blocks are and who holds them, nil if there are none.
local function recall(pages, first, chain, runs)
  local byte, sub, find, places, held, n = string.byte, string.sub, string.find, nil, nil, 0
  for r = 1, runs do
    local page, last = pages[first + r], n + byte(chain, r)
    if page then
      local next, length = 1, #page
      for k = n + 1, last do
        local key, at = sub(chain, runs + 8 * k - 7, runs + 8 * k), next
        if sub(page, at, at + 7) ~= key or at + 31 > length then -- what was written together lies together
          at = find(page, key, 1, true)
          while at and at % 32 ~= 1 do at = find(page, key, at + 1, true) end
        end
        if at and at + 31 <= length then
          if not places then places, held = {}, {} end
          places[k], held[k], next = at, sub(page, at + 8, at + 31), at + 32
        end
      end
    end
    n = last
  end
  return places, held
end

-- note remembers that the endpoint has the prompt, for which recall was called. The page of run r is pages[first + r], and
-- its key is keys[first + r].
local function note(keys, first, pages, chain, runs, places, held, endpoint, now, ttl)
  local byte, sub, mark, n = string.byte, string.sub, endpoint .. struct.pack('<I2', now), 0
  local fresh = mark .. '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  local anew = held and {} -- by holders: those with the endpoint in front, false if they stay
  for r = 1, runs do
    local last, page, some, changed = n + byte(chain, r), pages[first + r], false, not held
    for k = n + 1, held and last or n do
      local holders = held[k]
      local with = holders and anew[holders]
      if holders and with == nil then
        with = 18 -- whose place it takes
        for i = 0, 18, 6 do
          local holder, low, high = sub(holders, i + 1, i + 4), byte(holders, i + 5, i + 6)
          local none = holder == '\0\0\0\0'
          -- Nothing has to change if it was noted a moment ago, or as many others were.
          local young = not none and (now - low - 256 * high + 8) % 65536 < 16
          if young and (holder == endpoint or i == 18) then with = false end
          if none or not with or holder == endpoint then
            with = with and i
            break
          end
        end
        with = with and mark .. sub(holders, 1, with) .. sub(holders, with + 7)
        anew[holders] = with
      end
      some, changed = some or holders, changed or not holders or with
    end
    if changed then
      local value
      if some then
        -- All of a prompt comes to the front of a page that changes, lest its beginning, which others share, be pushed
        -- out by the ends of those.
        local parts, moved, from = {}, {}, 1
        for k = n + 1, last do
          local holders = held[k]
          parts[k - n] = sub(chain, runs + 8 * k - 7, runs + 8 * k) .. (holders and (anew[holders] or holders) or fresh)
          moved[#moved + 1] = places[k]
        end
        table.sort(moved)
        for i = 1, #moved do
          if from < moved[i] then parts[#parts + 1] = sub(page, from, moved[i] - 1) end
          from = moved[i] + 32
        end
        parts[#parts + 1] = sub(page, from)
        value = table.concat(parts)
      elseif last == n + 1 then
        value = sub(chain, runs + 8 * n + 1, runs + 8 * last) .. fresh .. (page or '')
      else
        local entry = '%0' .. string.gsub(fresh, '%%', '%%%%')
        value = string.gsub(sub(chain, runs + 8 * n + 1, runs + 8 * last), '........', entry) .. (page or '')
      end
      if #value > 2016 or #value % 32 > 0 then
        value = sub(value, 1, #value - #value % 32) -- nobody writes parts of entries
        local over, tenant, at = #value / 32 - 63, byte(value, 8), 40
        while byte(value, at) == tenant do at = at + 32 end
        if over > 0 and at > #value then -- all are of one
          value = sub(value, 1, 2016)
        elseif over > 0 then
          -- One entry after the other goes, the last one of those tenants that have most: so tenants share a full page,
          -- and none can push out what another remembers as long as it has more itself. What no tenant has claimed
          -- counts as one more tenant's.
          local count, have, share, above, room = {}, {}, 0, 0, -over -- entries by tenant, tenants by entries
          for at = 8, #value, 32 do
            local t = byte(value, at)
            count[t] = (count[t] or 0) + 1
          end
          for _, n in pairs(count) do have[n], share = (have[n] or 0) + 1, math.max(share, n) end
          while room < 0 do -- Those above their share are left with it, and with one more as long as there is room.
            above, share = above + (have[share] or 0), share - 1
            room = room + above
          end
          local parts, stop, at = {}, #value, #value - 31
          while over > 0 do
            local t = byte(value, at + 7)
            local n = count[t] - share
            if n > 1 or n == 1 and above > room then
              table.insert(parts, 1, sub(value, at + 32, stop))
              count[t], over, stop = count[t] - 1, over - 1, at - 1
              if n == 1 then above = above - 1 end
            end
            at = at - 32
          end
          value = sub(value, 1, stop) .. table.concat(parts)
        end
      end
      redis.call('SET', keys[first + r], value, 'PX', ttl)
    end
    n = last
  end
end
