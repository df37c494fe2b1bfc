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
local classes, runs, at = unpack('<I2I2', v, 13)
local first = at + 32 * classes
if lease[2] then
  local row, i = unpack('<I2', lease[2]), 0
  for run = first, first + 6 * (runs - 1), 6 do
    local _, from, count = unpack('<I2I2I2', v, run)
    if row >= from and row < from + count then
      local requests, sum = unpack('<I3I6', t, 17 + 9 * row)
      return {i + row - from, requests, sum}
    end
    i = i + count
  end
  return {-3}
end
local bases, slopes, weights, caps = {}, {}, {}, {}
for c = 0, classes - 1 do
  bases[c], slopes[c], weights[c], caps[c] = unpack('<dddd', v, at + 32 * c)
  if caps[c] == 0 then caps[c] = math.huge end
end
local tokens, by_tokens = tonumber(ARGV[2]), ARGV[3] == '1'
local added = by_tokens and tokens or 1
local tied, place, ties, least, i = {}, {}, 0, 0, 0
for run = first, first + 6 * (runs - 1), 6 do
  local c, c2, from, from2, count, count2 = byte(v, run, run + 5)
  c, from, count = c + 256 * c2, 17 + 9 * (from + 256 * from2), count + 256 * count2
  local base, slope, weight, cap = bases[c], slopes[c], weights[c], caps[c]
  for r = from, from + 9 * (count - 1), 9 do
    local x, y, z = byte(t, r, r + 2)
    local load = x + 256 * y + 65536 * z
    if load < cap then
      if by_tokens then load = unpack('<I6', t, r + 3) end
      local cost = base + slope * (load + added) / weight
      if ties == 0 or cost < least then
        least, ties, tied[0], place[0] = cost, 1, i, r
      elseif cost == least then
        tied[ties], place[ties], ties = i, r, ties + 1
      end
    end
    i = i + 1
  end
end
if ties == 0 then return {-1} end
local k = tonumber(ARGV[4]) % ties
local r = place[k]
local requests, sum = unpack('<I3I6', t, r)
-- The write that may be refused for want of memory comes first: then nothing is counted.
redis.call('SETRANGE', KEYS[1], r - 1, struct.pack('<I3I6', requests + 1, sum + tokens))
redis.call('HSET', KEYS[2], ARGV[1], struct.pack('<I2I4B', (r - 17) / 9, tokens, 0))
return {tied[k], requests + 1, sum + tokens}
