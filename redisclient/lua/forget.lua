-- Takes back that an endpoint has blocks in its cache.
--
-- KEYS     the page of each run...
-- ARGV     endpoint counts blocks      counts: of each run, how many blocks, 1 byte; blocks: their keys of 8 bytes, run by run
-- Returns  how many of them it was noted for
local byte, sub, none = string.byte, string.sub, string.rep('\0', 24)
local pages, n, had = redis.call('MGET', unpack(KEYS)), 0, 0
for r = 1, #KEYS do
  local page, before = pages[r] or '', had
  for k = n + 1, n + byte(ARGV[2], r) do
    local at = seek(page, sub(ARGV[3], 8 * k - 7, 8 * k))
    local holders = at and sub(page, at + 8, at + 31) or none
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
