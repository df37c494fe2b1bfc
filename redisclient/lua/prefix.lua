-- The prefix index: functions that match and record prompts.
--
-- The index records which endpoints have which prefix blocks in their caches. A scope has a fixed number of pages, all
-- in one hash, so that the scripts declare one key: field of a page -> page. The entry of a block is in its own page,
-- which its key determines, or in the page of the block before it in the prompt. The rules are those of
-- memstore.prefixIndex.
-- A page is a string of at most 63 entries of 32 bytes, those written last in front:
--
--   the block's key, 8 bytes, of which the last one is the tenant, 0 for none;
--   for each of up to 4 endpoints, the one recorded last in front: the lower half of the hash of its address, 4 bytes,
--   0 for none; and when it was last recorded, <I2 in ticks
--
-- Blocks behind a lost entry do not match any more, and are recorded again when the prompt comes again. Such a block
-- may have two entries until the older one is evicted. Both are true.
--
-- A tick is 4 s of this server's clock. Reservations take the time from their list of candidates, where heartbeats
-- store it: a call of TIME would cost as much as two reads. That time may be some ticks late, so a record that is up to
-- 8 ticks ahead of it is fresh. Ticks wrap after three days: a record that is so old, in a page that was never full
-- since, may then be assumed fresh, which costs one worse choice. An endpoint is not recorded again for a block within
-- 8 ticks, since every prompt would otherwise write the entries of a common beginning.
--
-- The hash expires after the longest TTL of cache entries that an owner has. The expiry is extended by each script that
-- adds a page, since the hash may be new then, and otherwise by each owner now and then.
--
-- A chain is the blocks of a prompt that are recorded: their keys, 8 bytes each, then the fields of their own pages, 3
-- bytes each. A reservation also has its inner blocks (prompt.Block), which are looked up and not recorded.
--
-- Redis creates a script's functions and tables again in every run. Most prompts are short, and most of the following
-- code is rarely needed. Therefore there are few functions, tables are created only when something is put into them,
-- and constants are written as numbers: 32 bytes of an entry, 2016 bytes of 63 entries, a full page; 15 and 31 entries
-- are a quarter and a half of one.

-- match looks up the chain's n blocks, one after the other, up to the first one without an entry. It returns
--   the pages that it read, by field, false for one that does not exist;
--   the parts of the prompt, each of which is in one page: the field, then the index of the part's first block;
--   for each matched block the position of its entry in the page;
--   for each matched block the endpoints part of its entry.
-- All but the first are nil if no block matched.
local function match(key, chain, n)
  local sub, find = string.sub, string.find
  local own, block = sub(chain, 8 * n + 1, 8 * n + 3), sub(chain, 1, 8)
  local page = redis.call('HGET', key, own)
  local at, pages = page and find(page, block, 1, true), {[own] = page}
  while at and at % 32 ~= 1 do at = find(page, block, at + 1, true) end
  if not at or at + 31 > #page then return pages end
  local parts, places, held, next = {own, 1}, {at}, {sub(page, at + 8, at + 31)}, at + 32
  for k = 2, n do
    block, at = sub(chain, 8 * k - 7, 8 * k), next
    if sub(page, at, at + 7) ~= block then -- blocks that were recorded together are adjacent
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

-- place adds parts for the blocks behind the matched ones: for 8 blocks at a time, 16 behind the first 32, it chooses
-- the page of the block before them or the own page of their first block, as memstore.prefixIndex.place does.
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
  -- turnover returns how many ticks ago the tenant's last entry was written that has a quarter of a full page behind
  -- it: the smaller, the sooner its entries are evicted.
  local tenant = string.byte(chain, 8)
  local function turnover(page)
    local byte, at = string.byte, math.min((#page - #page % 32) / 32, 47) * 32 - 31
    while at > 0 and byte(page, at + 7) ~= tenant do at = at - 32 end
    if at < 1 then return 65536 end
    local low, high = byte(page, at + 12, at + 13)
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

-- record records that the endpoint has all blocks of the prompt, for which match was called before. It extends the
-- expiry of the hash where it adds a page, and where left is set (the present expiry in ms) and too short.
local function record(key, chain, n, pages, parts, places, held, endpoint, now, ttl, left)
  local byte, sub, known, mark, fresh, spans = string.byte, string.sub, held and #held or 0, nil, nil, nil
  local field, span = parts and parts[1] or sub(chain, 8 * n + 1, 8 * n + 3), {1, n}
  if known == 0 and n > 8 or known > 0 and (known < n or parts[3]) then -- the prompt may be in several pages
    spans, parts = {}, parts or {} -- spans: by page the first and the last block of each part
    if known < n then place(key, chain, n, known, pages, parts, now) end
    for p = 1, #parts, 2 do
      local has, last = spans[parts[p]], parts[p + 3] and parts[p + 3] - 1 or n
      if has then
        has[#has + 1], has[#has + 2] = parts[p + 1], last
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
  local updated = held and {} -- by endpoints part: the same with the endpoint in front, false if it stays as it is
  -- entry is the replacement that writes an entry for a key; one and two are field and value of the first page that
  -- changes; set has the fields and values of all of them, if there are several.
  local entry, one, two, set
  while field do
    local page, changed = pages[field], span[#span] > known
    for s = 1, span[1] <= known and #span or 0, 2 do
      for k = span[s], math.min(span[s + 1], known) do
        local holders = held[k]
        local with = updated[holders]
        if with == nil then
          with = 18 -- the position of the endpoint that it replaces
          for i = 0, 18, 6 do
            local holder, low, high = sub(holders, i + 1, i + 4), byte(holders, i + 5, i + 6)
            local none = holder == '\0\0\0\0'
            -- The part stays as it is if the endpoint was recorded recently, or if all 4 endpoints were.
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
          updated[holders] = with
        end
        changed = changed or with
      end
    end
    if changed then
      local value
      if span[1] <= known then
        -- All of the prompt moves to the front of a page that changes. Otherwise its beginning, which other prompts
        -- share, would be evicted by the ends of those.
        local out, moved, from = {}, {}, 1
        for s = 1, #span, 2 do
          for k = span[s], span[s + 1] do
            local holders = k <= known and held[k]
            out[#out + 1] = sub(chain, 8 * k - 7, 8 * k) .. (holders and (updated[holders] or holders) or fresh)
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
        value = sub(value, 1, #value - #value % 32) -- no script writes incomplete entries
        local over, tenant, at = #value / 32 - 63, byte(value, 8), 40
        while byte(value, at) == tenant do at = at + 32 end
        if over > 0 and at > #value then -- all entries are of one tenant
          value = sub(value, 1, 2016)
        elseif over > 0 then
          -- Entries are evicted one after the other: the last one of the tenant that has most. So tenants share a full
          -- page, and no tenant can evict entries of another that has fewer. Blocks without a tenant count as one more
          -- tenant. entries[t] is how many entries tenant t has, tenants[n] how many tenants have n entries.
          local entries, tenants, share, above, room = {}, {}, 0, 0, -over
          for key_end = 8, #value, 32 do
            local t = byte(value, key_end)
            entries[t] = (entries[t] or 0) + 1
          end
          for _, has in pairs(entries) do tenants[has], share = (tenants[has] or 0) + 1, math.max(share, has) end
          while room < 0 do -- tenants above the share keep that many, and one more as long as there is room
            above, share = above + (tenants[share] or 0), share - 1
            room = room + above
          end
          local rest, stop = {}, #value
          at = #value - 31
          while over > 0 do
            local t = byte(value, at + 7)
            local more = entries[t] - share
            if more > 1 or more == 1 and above > room then
              table.insert(rest, 1, sub(value, at + 32, stop))
              entries[t], over, stop = entries[t] - 1, over - 1, at - 1
              if more == 1 then above = above - 1 end
            end
            at = at - 32
          end
          value = sub(value, 1, stop) .. table.concat(rest)
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
