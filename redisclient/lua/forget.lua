-- Takes back that an endpoint has blocks in its cache, also those behind one that was lost. They are in the page that a
-- block before them is in, in their own one or in that of one of the blocks before: of these, the latest 8 are looked
-- through, for to look through all would take a millisecond.
--
-- KEYS     pages
-- ARGV     endpoint chain from      chain: as prefix.lua has it; from: the first of its blocks that the endpoint may
--          not have, counted from 1
-- Returns  how many of its blocks it was noted for
local sub, find, endpoint, chain = string.sub, string.find, ARGV[1], ARGV[2]
local n, from, had, none = #chain / 11, tonumber(ARGV[3]), 0, string.rep('\0', 24)
local pages, read, changed, last = {}, {}, {}, nil -- pages and those that changed, by field; fields, as they were read

-- take looks for a block in a page, and takes the endpoint out if it is to. It returns whether the block is there, and
-- the endpoint was.
local function take(field, block, out)
  local page, there, taken = pages[field], false, false
  local at = find(page, block, 1, true)
  while at do
    local left = at
    if at % 32 == 1 and at + 31 <= #page then
      there = true
      for i = at + 8, out and at + 26 or 0, 6 do
        if sub(page, i, i + 3) == endpoint then
          local holders = sub(page, at + 8, i - 1) .. sub(page, i + 6, at + 31) .. '\0\0\0\0\0\0'
          local entry = holders ~= none and block .. holders or '' -- nobody has it any more
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
  if last then there, taken = take(last, block, k >= from) end
  for p = #read, math.max(1, #read - 7), -1 do
    if read[p] ~= known then
      local here, out = take(read[p], block, k >= from)
      taken = taken or out
      if here and not there then there, last = true, read[p] end
    end
  end
  if taken then had = had + 1 end
end
for field in pairs(changed) do
  -- What is empty goes, and so does what there is no memory to write.
  local written = #pages[field] > 31 and redis.pcall('HSET', KEYS[1], field, pages[field])
  if not written or type(written) == 'table' then redis.call('HDEL', KEYS[1], field) end
end
return had
