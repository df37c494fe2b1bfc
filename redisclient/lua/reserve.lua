-- Takes the cheapest candidate below its cap, by the rule of lb.Choose, and counts the request there.
--
-- KEYS     table own view
-- ARGV     id tokens unit tie      unit 0: requests, 1: tokens
-- Returns  {candidate from 0, requests, tokens} with this request on it; {-1} all are full, {-2} it was released before
--          it ran, {-3} the view is not known here or the owner not entered: open.lua first
local lease = redis.call('HMGET', KEYS[2], 'b', ARGV[1])
local data = redis.call('MGET', KEYS[1], KEYS[3])
local t, v = data[1], data[2]
if not t or not v or lease[1] ~= string.sub(t, 1, 8) or string.sub(v, 1, 12) ~= string.sub(t, 1, 12) then return {-3} end
if lease[2] == '' then
  redis.call('HDEL', KEYS[2], ARGV[1])
  return {-2}
end
local byte, unpack = string.byte, struct.unpack
local classes, n, at = unpack('<I2I2', v, 13)
local first = at + 32 * classes
if lease[2] then
  local row = unpack('<I2', lease[2])
  for i = 0, n - 1 do
    if unpack('<I2', v, first + 4 * i + 2) == row then
      local requests, sum = unpack('<I3I6', t, 17 + 9 * row)
      return {i, requests, sum}
    end
  end
  return {-3}
end
local base, slope, weight, cap = {}, {}, {}, {}
for c = 0, classes - 1 do
  base[c], slope[c], weight[c], cap[c] = unpack('<dddd', v, at + 32 * c)
end
local tokens, by_tokens = tonumber(ARGV[2]), ARGV[3] == '1'
local added = by_tokens and tokens or 1
local tied, ties, least = {}, 0, 0
for i = 0, n - 1 do
  local c, c2, r, r2 = byte(v, first + 4 * i, first + 4 * i + 3)
  c, r = c + 256 * c2, 17 + 9 * (r + 256 * r2)
  local x, y, z = byte(t, r, r + 2)
  local load = x + 256 * y + 65536 * z
  if cap[c] == 0 or load < cap[c] then
    if by_tokens then load = unpack('<I6', t, r + 3) end
    local cost = base[c] + slope[c] * (load + added) / weight[c]
    if ties == 0 or cost < least then
      least, ties, tied[0] = cost, 1, i
    elseif cost == least then
      tied[ties], ties = i, ties + 1
    end
  end
end
if ties == 0 then return {-1} end
local i = tied[tonumber(ARGV[4]) % ties]
local row = unpack('<I2', v, first + 4 * i + 2)
local requests, sum = unpack('<I3I6', t, 17 + 9 * row)
-- The write that may be refused for want of memory comes first: then nothing is counted.
redis.call('SETRANGE', KEYS[1], 16 + 9 * row, struct.pack('<I3I6', requests + 1, sum + tokens))
redis.call('HSET', KEYS[2], ARGV[1], struct.pack('<I2I5', row, tokens))
return {i, requests + 1, sum + tokens}
