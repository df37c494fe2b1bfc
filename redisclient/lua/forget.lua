-- Takes back that an endpoint has blocks in its cache.
--
-- KEYS     pages
-- ARGV     endpoint chain from      chain: as prefix.lua has it; from: the first of its blocks that the endpoint may
--          not have, counted from 1
-- Returns  how many of its blocks it was noted for
local sub, none, had, wanted = string.sub, string.rep('\0', 24), 0, {} -- wanted: keys of blocks, by page
local pages, parts, _, held = recall(KEYS[1], ARGV[2], #ARGV[2] / 11)
for p = 1, held and #parts or 0, 2 do
  local keys = wanted[parts[p]] or {}
  wanted[parts[p]] = keys
  for k = math.max(parts[p + 1], ARGV[3]), parts[p + 3] and parts[p + 3] - 1 or #held do
    keys[sub(ARGV[2], 8 * k - 7, 8 * k)] = 0
  end
end
for field, keys in pairs(wanted) do
  local page, left, changed = pages[field], {}, false
  for at = 1, #page - 31, 32 do -- a block may be there twice
    local key, holders = sub(page, at, at + 7), sub(page, at + 8, at + 31)
    for i = 1, keys[key] and 19 or 0, 6 do
      if sub(holders, i, i + 3) == ARGV[1] then
        holders = sub(holders, 1, i - 1) .. sub(holders, i + 6) .. string.rep('\0', 6)
        changed, keys[key] = true, 1
        break
      end
    end
    if holders ~= none then left[#left + 1] = key .. holders end -- else nobody has it any more
  end
  for _, n in pairs(keys) do had = had + n end
  if changed then
    -- What is empty goes, and so does what there is no memory to write.
    local written = #left > 0 and redis.pcall('HSET', KEYS[1], field, table.concat(left))
    if not written or type(written) == 'table' then redis.call('HDEL', KEYS[1], field) end
  end
end
return had
