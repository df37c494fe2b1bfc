-- Takes the rows of endpoints that are idle and not wanted, and reports which others are idle. A new generation makes
-- every list of candidates void that may name them.
--
-- KEYS     table rows
-- ARGV     cursor addr...      cursor: 0, and then as it was returned; addr: not wanted
-- Returns  {cursor, addr...}, 128 of them at most
local t, gone, spare = redis.call('GETRANGE', KEYS[1], 0, -1), {}, {}
local function idle(row) return string.sub(t, HEAD + ROW * row + 1, HEAD + ROW * row + 3) == '\0\0\0' end
if #ARGV > 1 then
  for i, row in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, 2))) do
    if row and idle(row) then gone[#gone + 1], spare[#spare + 1] = ARGV[i + 1], struct.pack('<I2', row) end
  end
end
if #gone > 0 then
  redis.call('HDEL', KEYS[2], unpack(gone))
  redis.call('HSET', KEYS[2], '', (redis.call('HGET', KEYS[2], '') or '') .. table.concat(spare))
  redis.call('SETRANGE', KEYS[1], 8, struct.pack('<I4', (struct.unpack('<I4', t, 9) + 1) % 2 ^ 32))
end
local part = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', 100)
local out, known = {part[1]}, part[2]
for i = 1, #known, 2 do
  if known[i] ~= '' and #out <= 128 and idle(known[i + 1]) then out[#out + 1] = known[i] end
end
return out
