-- Takes the rows of endpoints that are idle and were on no list for a while, and reports which others are such. A new
-- generation makes every list of candidates void, because one that nobody uses may still name them.
--
-- KEYS     table rows listed
-- ARGV     cursor unlisted_s addr...      cursor: 0, and then as it was returned, empty to look for none; addr: to take
-- Returns  {cursor, addr...}, 128 of them at most
local t, l, gone, spare = redis.call('GETRANGE', KEYS[1], 0, -1), redis.call('GETRANGE', KEYS[3], 0, -1), {}, {}
local before = redis.call('TIME')[1] - ARGV[2]
local function over(row)
  if string.sub(t, HEAD + ROW * row + 1, HEAD + ROW * row + 3) ~= '\0\0\0' then return false end
  return #l < 4 * row + 4 or struct.unpack('<I4', l, 4 * row + 1) < before
end
if #ARGV > 2 then
  for i, row in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, 3))) do
    if row and over(row) then gone[#gone + 1], spare[#spare + 1] = ARGV[i + 2], struct.pack('<I2', row) end
  end
end
if #gone > 0 then
  redis.call('HDEL', KEYS[2], unpack(gone))
  redis.call('HSET', KEYS[2], '', (redis.call('HGET', KEYS[2], '') or '') .. table.concat(spare))
  redis.call('SETRANGE', KEYS[1], 8, struct.pack('<I4', (struct.unpack('<I4', t, 9) + 1) % 2 ^ 32))
end
if ARGV[1] == '' then return {} end
local part = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', 100)
local out, known = {part[1]}, part[2]
for i = 1, #known, 2 do
  if known[i] ~= '' and #out <= 128 and over(known[i + 1]) then out[#out + 1] = known[i] end
end
return out
