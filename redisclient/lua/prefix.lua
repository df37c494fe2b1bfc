-- Put before reserve.lua where a request comes with the blocks of its prompt, and before note.lua and forget.lua.
--
-- Which endpoints have which blocks in their caches is kept in pages, of which a scope has a fixed number. All of them
-- are in one hash, so that any number of them is one declared key: field of a page -> page. A block has its entry in
-- the page that its own key names, its own page, or in the page that the block before it in the prompt is in: see
-- lb.prefixIndex, whose rules these are. A page is a string of at most 63 entries, those that were written last in
-- front:
--
--   the block's key 8 bytes, of which the last is its tenant, 0 for none, then for each of up to 4 endpoints, the one
--   that came last in front: the endpoint 4 bytes (the lower half of the hash of its address, 0 for none), when it was
--   last seen there <I2, in ticks
--
-- What is left behind a block that was lost is not known, and noted anew when the prompt comes again: such a block may
-- be there twice until the older entry is pushed out. Either one is true.
--
-- What the time is, reservations know from their list of candidates, in which beats note it: TIME would cost as much as
-- two reads. It may be some ticks behind, so what is up to 8 ticks ahead is young.
--
-- The hash is kept for as long as endpoints are taken to keep what they have, by whoever takes them to keep it longest.
-- Whoever adds a page sees to that, since the hash may be new then; else every owner does now and then. A tick is 4 s
-- of this server's clock. Ticks wrap after three days: who was noted so long ago, in a page that was never full since,
-- may then be taken for young, which costs one wrong guess. An endpoint is not noted again for 8 ticks: what all
-- prompts begin with would be written by each.
--
-- A chain is a prompt's blocks: their keys of 8 bytes, then the field of each one's own page, 3 bytes.
--
-- A script's functions are made anew whenever it runs, and so are tables; most prompts are short, and much of what
-- follows is rare. So there are few functions, which make tables when there is something to put into them, and numbers
-- are written out: 32 bytes are an entry, 2016 bytes the 63 entries that a page may have, of which 15 and 31 are a
-- quarter and a half.

-- recall looks for the chain's n blocks, one after the other, up to the first that is not known. It returns the pages
-- that it read, by their fields, false for one that is not there; the parts of the prompt, each in one page: its field,
-- and the number of the part's first block; and where the entries of blocks are and who holds them, nil if there are
-- none.
local function recall(key, chain, n)
  local sub, find = string.sub, string.find
  local own, block = sub(chain, 8 * n + 1, 8 * n + 3), sub(chain, 1, 8)
  local page = redis.call('HGET', key, own)
  local at, pages = page and find(page, block, 1, true), {[own] = page}
  while at and at % 32 ~= 1 do at = find(page, block, at + 1, true) end
  if not at or at + 31 > #page then return pages end
  local parts, places, held, next = {own, 1}, {at}, {sub(page, at + 8, at + 31)}, at + 32
  for k = 2, n do
    block, at = sub(chain, 8 * k - 7, 8 * k), next
    if sub(page, at, at + 7) ~= block then -- what was written together lies together
      at = find(page, block, 1, true)
      while at and at % 32 ~= 1 do at = find(page, block, at + 1, true) end
    end
    if not at or at + 31 > #page then
      own = sub(chain, 8 * n + 3 * k - 2, 8 * n + 3 * k)
      page = pages[own]
      if page == nil then
        page = redis.call('HGET', key, own)
        pages[own] = page
      end
      at = page and find(page, block, 1, true)
      while at and at % 32 ~= 1 do at = find(page, block, at + 1, true) end
      if not at or at + 31 > #page then break end
      parts[#parts + 1], parts[#parts + 2] = own, k
    end
    places[k], held[k], next = at, sub(page, at + 8, at + 31), at + 32
  end
  return pages, parts, places, held
end

-- place adds parts for the blocks behind the known ones: for 8 at a time, 16 behind the first 32, the page that the block
-- before them is in or the own one of their first, as lb.prefixIndex.place does.
local function place(key, chain, n, known, pages, parts, now)
  local sub, more, put, read = string.sub, {}, parts[#parts - 1], {}
  local k = known + 1
  while k <= n do
    local own = sub(chain, 8 * n + 3 * k - 2, 8 * n + 3 * k)
    if pages[own] == nil then read[#read + 1], pages[own] = own, false end
    k = k + (k > 32 and 16 or 8)
  end
  local got = #read > 0 and redis.call('HMGET', key, unpack(read))
  for i = 1, #read do pages[read[i]] = got[i] end
  local function turnover(page) -- how many ticks ago the entry was written that has a quarter of a full page's behind it
    local at = math.min((#page - #page % 32) / 32, 47) * 32 - 31
    if at < 1 then return 65536 end
    local low, high = string.byte(page, at + 12, at + 13)
    return (now - low - 256 * high + 8) % 65536 - 8
  end
  k = known + 1
  while k <= n do
    local own, size = sub(chain, 8 * n + 3 * k - 2, 8 * n + 3 * k), math.min(k > 32 and 16 or 8, n - k + 1)
    local to = own
    if put and put ~= own then
      local a, b, added = pages[put] or '', pages[own] or '', (more[put] or 0) + size
      local here, there = #a / 32 + added, #b / 32 + (more[own] or 0) + size
      if here <= 15 then
        to = put
      elseif added <= 31 then
        local better = here < there
        if here > 63 and there > 63 then better = turnover(a) > turnover(b) end
        if better then to = put end
      end
    end
    if to ~= put then parts[#parts + 1], parts[#parts + 2] = to, k end
    more[to], put, k = (more[to] or 0) + size, to, k + size
  end
end

-- note remembers that the endpoint has the prompt, for which recall was called, and sees to the hash's expiry: where a
-- page is added, and where left says that it is due, by how far ahead the present one is.
local function note(key, chain, n, pages, parts, places, held, endpoint, now, ttl, left)
  local byte, sub, known, mark, fresh, spans = string.byte, string.sub, held and #held or 0, nil, nil, nil
  local field, span = parts and parts[1] or sub(chain, 8 * n + 1, 8 * n + 3), {1, n}
  if known == 0 and n > 8 or known > 0 and (known < n or parts[3]) then -- it may be in several pages
    spans, parts = {}, parts or {} -- by page: the first and the last block of each part
    if known < n then place(key, chain, n, known, pages, parts, now) end
    for p = 1, #parts, 2 do
      local span, last = spans[parts[p]], parts[p + 3] and parts[p + 3] - 1 or n
      if span then
        span[#span + 1], span[#span + 2] = parts[p + 1], last
      else
        spans[parts[p]] = {parts[p + 1], last}
      end
    end
    field, span = next(spans)
  end
  if known < n then
    mark = endpoint .. struct.pack('<I2', now)
    fresh = mark .. '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  end
  local anew = held and {} -- by holders: those with the endpoint in front, false if they stay
  local entry, one, two, set -- field and value of the first page that changes, and those of all if there are more
  while field do
    local page, changed = pages[field], span[#span] > known
    for s = 1, span[1] <= known and #span or 0, 2 do
      for k = span[s], math.min(span[s + 1], known) do
        local holders = held[k]
        local with = anew[holders]
        if with == nil then
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
          if with then
            mark = mark or endpoint .. struct.pack('<I2', now)
            with = mark .. sub(holders, 1, with) .. sub(holders, with + 7)
          end
          anew[holders] = with
        end
        changed = changed or with
      end
    end
    if changed then
      local value
      if span[1] <= known then
        -- All of a prompt comes to the front of a page that changes, lest its beginning, which others share, be pushed
        -- out by the ends of those.
        local out, moved, from = {}, {}, 1
        for s = 1, #span, 2 do
          for k = span[s], span[s + 1] do
            local holders = k <= known and held[k]
            out[#out + 1] = sub(chain, 8 * k - 7, 8 * k) .. (holders and (anew[holders] or holders) or fresh)
            if holders then moved[#moved + 1] = places[k] end
          end
        end
        table.sort(moved)
        for i = 1, #moved do
          if from < moved[i] then out[#out + 1] = sub(page, from, moved[i] - 1) end
          from = moved[i] + 32
        end
        out[#out + 1] = sub(page, from)
        value = table.concat(out)
      elseif span[1] == span[#span] then
        value = sub(chain, 8 * span[1] - 7, 8 * span[1]) .. fresh .. (page or '')
      else
        local keys = ''
        for s = 1, #span, 2 do keys = keys .. sub(chain, 8 * span[s] - 7, 8 * span[s + 1]) end
        entry = entry or '%0' .. string.gsub(fresh, '%%', '%%%%')
        value = string.gsub(keys, '........', entry) .. (page or '')
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
      if not one then
        one, two = field, value
      else
        set = set or {one, two}
        set[#set + 1], set[#set + 2] = field, value
      end
    end
    if not spans then break end
    field, span = next(spans, field)
  end
  local added = not one and 0 or set and redis.call('HSET', key, unpack(set)) or redis.call('HSET', key, one, two)
  if added > 0 then left = redis.call('PTTL', key) end
  if left and left < ttl * 7 / 8 then redis.call('PEXPIRE', key, ttl) end
end
