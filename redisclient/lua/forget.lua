-- Takes back that an endpoint has blocks in its cache.
--
-- KEYS     the page of each run...
-- ARGV     endpoint chain      as prefix.lua has it
-- Returns  how many of its blocks it was noted for
local byte, sub, find, none = string.byte, string.sub, string.find, string.rep('\0', 24)
local pages, n, had = redis.call('MGET', unpack(KEYS)), 0, 0
for r = 1, #KEYS do
  local page, before = pages[r] or '', had
  for k = n + 1, n + byte(ARGV[2], r) do
    local key = sub(ARGV[2], #KEYS + 8 * k - 7, #KEYS + 8 * k)
    local at = find(page, key, 1, true)
    while at and at % 32 ~= 1 do at = find(page, key, at + 1, true) end
    local holders = at and at + 31 <= #page and sub(page, at + 8, at + 31) or none
    for i = 1, 19, 6 do
      if sub(holders, i, i + 3) == ARGV[1] then
        holders = sub(holders, 1, i - 1) .. sub(holders, i + 6) .. string.rep('\0', 6)
        -- If nobody has it any more, the entry goes.
        local entry = holders == none and '' or sub(page, at, at + 7) .. holders
        page, had = sub(page, 1, at - 1) .. entry .. sub(page, at + 32), had + 1
        break
      end
    end
  end
  n = n + byte(ARGV[2], r)
  if had > before then
    -- What is empty goes, and so does what there is no memory to write.
    local written = page ~= '' and redis.pcall('SET', KEYS[r], page, 'KEEPTTL')
    if not written or written.err then redis.call('UNLINK', KEYS[r]) end
  end
end
return had
