-- Deletes the record that an endpoint has blocks of a prompt in its cache, also for blocks behind one whose entry was
-- lost. The entry of a block is in the page of the block before it, in its own page, or in the own page of an earlier
-- block. Of the latter, the latest 8 are searched: to search all would take a millisecond.
--
-- KEYS     pages
-- ARGV     endpoint chain from
--   endpoint  the lower half of the hash of its address, 4 bytes
--   chain     as in prefix.lua
--   from      the first block of the prompt that the endpoint may not have, counted from 1
-- Returns  for how many of these blocks the endpoint was recorded
local sub, find, endpoint, chain = string.sub, string.find, ARGV[1], ARGV[2]
local n, from, had, none = #chain / 11, tonumber(ARGV[3]), 0, string.rep('\0', 24)
-- The pages that were read, and those that changed, by field; the fields in the order in which they were read; the page
-- of the previous block.
local pages, read, changed, last = {}, {}, {}, nil

-- remove searches a page for the entries of a block, and removes the endpoint from them if out is true. It returns
-- whether the block has an entry there, and whether the endpoint was removed from one.
local function remove(field, block, out)
  local page, there, taken = pages[field], false, false
  local at = find(page, block, 1, true)
  while at do
    local left = at
    if at % 32 == 1 and at + 31 <= #page then
      there = true
      for i = at + 8, out and at + 26 or 0, 6 do
        if sub(page, i, i + 3) == endpoint then
          local holders = sub(page, at + 8, i - 1) .. sub(page, i + 6, at + 31) .. '\0\0\0\0\0\0'
          local entry = holders ~= none and block .. holders or '' -- without endpoints the entry is deleted
          page, taken, left = sub(page, 1, at - 1) .. entry .. sub(page, at + 32), true, at + #entry - 1
          break
        end
      end
    end
    at = find(page, block, left + 1, true)
  end
  if taken then pages[field], changed[field] = page, true end
  return there, taken
end

for k = 1, n do
  local block, own = sub(chain, 8 * k - 7, 8 * k), sub(chain, 8 * n + 3 * k - 2, 8 * n + 3 * k)
  if pages[own] == nil then
    pages[own] = redis.call('HGET', KEYS[1], own)
    if pages[own] then read[#read + 1] = own end
  end
  local there, taken, known = false, false, last
  if last then there, taken = remove(last, block, k >= from) end
  for p = #read, math.max(1, #read - 7), -1 do
    if read[p] ~= known then
      local here, out = remove(read[p], block, k >= from)
      taken = taken or out
      if here and not there then there, last = true, read[p] end
    end
  end
  if taken then had = had + 1 end
end
for field in pairs(changed) do
  -- A page without entries is deleted, and so is one that cannot be written because Redis is out of memory.
  local written = #pages[field] > 31 and redis.pcall('HSET', KEYS[1], field, pages[field])
  if not written or type(written) == 'table' then redis.call('HDEL', KEYS[1], field) end
end
return had
