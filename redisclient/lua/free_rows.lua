-- Frees the rows of endpoints that are idle and were not on a list of candidates for a while, and returns other
-- endpoints of which that is true. When rows are freed, a new generation of the table voids all lists, because one of
-- them may still contain such a row. No row is freed while requests wait, because the queue may name it.
--
-- KEYS     table rows listed
-- ARGV     cursor unlisted_s addr...
--   cursor      where the search continues: 0, then as the last call returned it; empty for no search
--   unlisted_s  how long a row must not have been listed
--   addr        the endpoints whose rows are to be freed, unless they are in use by now
-- Returns  {cursor, addr...}: at most 128 addresses; {} if there was no search
--@use shared
local t, l, gone, spare = redis.call('GETRANGE', KEYS[1], 0, -1), redis.call('GETRANGE', KEYS[3], 0, -1), {}, {}
local seen = {} -- HSCAN may have returned a name twice; two endpoints would get its row
local before = redis.call('TIME')[1] - ARGV[2]

-- unused returns whether the row may be freed.
local function unused(row)
  if string.sub(t, HEAD + ROW * row + 1, HEAD + ROW * row + 3) ~= '\0\0\0' then return false end
  return #l < 4 * row + 4 or struct.unpack('<I4', l, 4 * row + 1) < before
end

if #ARGV > 2 and string.byte(t, 16) == 0 then
  for i, row in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, 3))) do
    if row and not seen[row] and unused(row) then
      gone[#gone + 1], spare[#spare + 1], seen[row] = ARGV[i + 2], struct.pack('<I2', row), true
    end
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
  if known[i] ~= '' and #out <= 128 and unused(known[i + 1]) then out[#out + 1] = known[i] end
end
return out
