-- Takes back that an endpoint has blocks in its cache.
--
-- KEYS     pages
-- ARGV     endpoint chain from      chain: as prefix.lua has it; from: the first of its blocks that the endpoint may
--          not have, counted from 1
-- Returns  how many of its blocks it was noted for
local sub, none, had, changed, emptied = string.sub, string.rep('\0', 24), 0, {}, {}
local pages, parts, places, held = recall(KEYS[1], ARGV[2], #ARGV[2] / 11)
for p = 1, held and #parts or 0, 2 do
  local field = parts[p]
  local gone = emptied[field] or {}
  emptied[field] = gone
  for k = math.max(parts[p + 1], ARGV[3]), parts[p + 3] and parts[p + 3] - 1 or #held do
    local page, holders, at = pages[field], held[k], places[k]
    for i = 1, 19, 6 do
      if sub(holders, i, i + 3) == ARGV[1] then
        holders = sub(holders, 1, i - 1) .. sub(holders, i + 6) .. string.rep('\0', 6)
        for _, place in ipairs(gone) do at = at - (place < places[k] and 32 or 0) end
        local entry = sub(page, at, at + 7) .. holders
        if holders == none then entry, gone[#gone + 1] = '', places[k] end -- nobody has it any more
        pages[field], had, changed[field] = sub(page, 1, at - 1) .. entry .. sub(page, at + 32), had + 1, true
        break
      end
    end
  end
end
for field in pairs(changed) do
  -- What is empty goes, and so does what there is no memory to write.
  local written = pages[field] ~= '' and redis.pcall('HSET', KEYS[1], field, pages[field])
  if not written or type(written) == 'table' then redis.call('HDEL', KEYS[1], field) end
end
return had
