-- Deletes the record that an endpoint has blocks of a prompt in its cache, also for blocks behind one whose entry was
-- lost. The entry of a block is in the page of the block before it, in its own page, or in the own page of an earlier
-- block. Of the latter, the latest 8 are searched: to search all would take a millisecond.
--
-- KEYS     pages
-- ARGV     endpoint chain from
--   endpoint  the lower half of the hash of its address, 4 bytes
--   chain     as in prefix.lua, with the inner blocks in their places: the last bit of their fields is set
--   from      the first block of the prompt that the endpoint may not have, counted from 1
-- Returns  for how many of these blocks the endpoint was recorded
--@function forget(KEYS, ARGV)
local sub, find, endpoint, chain = string.sub, string.find, ARGV[1], ARGV[2]
local n, from, had, none = #chain / 11, tonumber(ARGV[3]), 0, string.rep('\0', 24)
-- By field: the pages that exist, and whether the endpoint is anywhere in them. Then the own pages of the blocks up to
-- the present one, in their order, and those of inner ones; the page of the previous block, and of an inner one behind.
local pages, marked, opened, finer, last, inner = {}, {}, {}, {}, nil, nil
-- By field: the positions of the entries to replace, and what replaces each. All entries of a page are replaced at
-- the end, because each change makes a new string of 2 KB.
local places, entries = {}, {}

-- remove searches a page for the entries of a block, where its key is first found at a position, and removes the
-- endpoint from them if out is true. It returns whether the block has an entry there, and whether the endpoint was
-- removed from one.
local function remove(field, block, out, at)
  local page, there, taken = pages[field], false, false
  while at do
    if at % 32 == 1 and at + 31 <= #page then
      there = true
      for i = at + 8, out and at + 26 or 0, 6 do
        if sub(page, i, i + 3) == endpoint then
          local holders = sub(page, at + 8, i - 1) .. sub(page, i + 6, at + 31) .. '\0\0\0\0\0\0'
          if not places[field] then places[field], entries[field] = {}, {} end
          local list = places[field]
          if not entries[field][at] then list[#list + 1] = at end
          entries[field][at] = holders ~= none and block .. holders or '' -- without endpoints the entry is deleted
          taken = true
          break
        end
      end
    end
    at = find(page, block, at + 1, true)
  end
  return there, taken
end

for k = 1, n do
  local block, own, out = sub(chain, 8 * k - 7, 8 * k), sub(chain, 8 * n + 3 * k - 2, 8 * n + 3 * k), k >= from
  local top, list = string.byte(own, 3), opened
  if top > 127 then own, list = sub(own, 1, 2) .. string.char(top - 128), finer end
  if pages[own] == nil then -- one HMGET for all of them takes longer: its reply is put together first
    local page = redis.call('HGET', KEYS[1], own)
    pages[own] = page
    if page then list[#list + 1], marked[own] = own, find(page, endpoint, 1, true) end
  end
  local there, taken, known = false, false, top > 127 and inner or last
  local at, is = known and find(pages[known], block, 1, true), known
  if at then there, taken = remove(known, block, out, at) end
  -- Another entry of the block matters only if the endpoint may be in it.
  for p = (out or not there) and #list or 0, math.max(1, #list - 7), -1 do
    local field = list[p]
    if field ~= known and (not there or out and marked[field]) then
      at = find(pages[field], block, 1, true)
      if at then
        local here, gone = remove(field, block, out, at)
        taken = taken or gone
        if here and not there then there, is = true, field end
      end
    end
  end
  inner = top > 127 and is
  if not inner then last = is end
  if taken then had = had + 1 end
end
for field, list in pairs(places) do
  local page, with, parts, rest = pages[field], entries[field], {}, 1
  table.sort(list)
  for i = 1, #list do
    if rest < list[i] then parts[#parts + 1] = sub(page, rest, list[i] - 1) end
    parts[#parts + 1], rest = with[list[i]], list[i] + 32
  end
  parts[#parts + 1] = sub(page, rest)
  page = table.concat(parts)
  -- A page without entries is deleted, and so is one that cannot be written because Redis is out of memory.
  local written = #page > 31 and redis.pcall('HSET', KEYS[1], field, page)
  if not written or type(written) == 'table' then redis.call('HDEL', KEYS[1], field) end
end
return had
