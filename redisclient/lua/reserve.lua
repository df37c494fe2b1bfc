-- Takes the cheapest candidate below its cap, by the rule of lb.Choose, and counts the request there. With the blocks of its
-- prompt, and prefix.lua in front, it prefers those that have the beginning of it, and notes that the chosen one has it all.
--
-- KEYS     table own view, and with blocks: run...
-- ARGV     id tokens unit tie      unit 0: requests, 1: tokens
--          with blocks also: terms counts blocks ends
--   terms   <dddd: credit, length of the prompt, its tokens, ms to remember it     counts  of each run, how many blocks, 1 byte
--   blocks  their keys of 8 bytes                                                   ends    <I4 each, in the unit of the length
-- Returns  {candidate from 0, requests, tokens} with this request on it, and with blocks also how many of them it has, and the
--          tokens that were counted; {-1} all are full, {-2} it was released before it ran, {-3} the view is not known here
--          or the owner not entered: open.lua first
local prompt, known = KEYS[4], nil
local lease = redis.call('HMGET', KEYS[2], 'b', ARGV[1])
local data = redis.call('MGET', KEYS[1], KEYS[3])
local t, v = data[1], data[2]
if not t or not v or lease[1] ~= string.sub(t, 1, 8) or string.sub(v, 1, 12) ~= string.sub(t, 1, 12) then return {-3} end
if lease[2] == '' then
  redis.call('HDEL', KEYS[2], ARGV[1])
  return {-2}
end
if prompt and not lease[2] then known = redis.call('MGET', unpack(KEYS, 4)) end
local byte, unpack = string.byte, struct.unpack
local classes, runs, at = unpack('<I2I2', v, 13)
local first = at + 32 * classes
if lease[2] then
  local row, i = unpack('<I2', lease[2]), 0
  for run = first, first + 6 * (runs - 1), 6 do
    local _, from, count = unpack('<I2I2I2', v, run)
    if row >= from and row < from + count then
      local requests, sum = unpack('<I3I6', t, 17 + 9 * row)
      if not prompt then return {i + row - from, requests, sum} end
      local tokens, _, cached = unpack('<I4BB', lease[2] .. '\0', 3)
      return {i + row - from, requests, sum, cached, tokens}
    end
    i = i + count
  end
  return {-3}
end
local tokens, by_tokens = tonumber(ARGV[2]), ARGV[3] == '1'
local added = by_tokens and math.min(math.max(tokens, 0), 4294967295) or 1
local places, credit, cached, now, length, prompt_tokens, ttl
local hashes = first + 6 * runs
if prompt then
  local whole, deepest
  whole, length, prompt_tokens, ttl = unpack('<dddd', ARGV[5])
  now = math.floor(redis.call('TIME')[1] / TICK) % 65536
  places, deepest = recall(known, ARGV[6], ARGV[7], now, math.floor(ttl / (1000 * TICK)))
  if deepest then credit, cached = credits(deepest, ARGV[8], v, hashes, whole, length) end
end
local tied, place, ties, least, i, width = {}, {}, 0, 0, 0, by_tokens and 8 or 2
for run = first, first + 6 * (runs - 1), 6 do
  local c, c2, from, from2, count, count2 = byte(v, run, run + 5)
  c, from, count = c + 256 * c2, 17 + 9 * (from + 256 * from2), count + 256 * count2
  local base, slope, weight, cap = unpack('<dddd', v, at + 32 * c)
  if cap == 0 then cap = math.huge end
  for r = from, from + 9 * (count - 1), 9 do
    local x, y, z, b1, b2, b3, b4, b5, b6 = byte(t, r, r + width)
    local load = x + 256 * y + 65536 * z
    if load < cap then
      if by_tokens then load = b1 + 256 * b2 + 65536 * b3 + 16777216 * b4 + 4294967296 * b5 + 1099511627776 * b6 end
      local cost = base + slope * (load + added) / weight
      if credit then cost = cost - (credit[i] or 0) end
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
local blocks = cached and cached[tied[k]] or 0
if prompt then -- what is cached need not be computed
  local saved = blocks > 0 and math.floor(prompt_tokens * (unpack('<I4', ARGV[8], 4 * blocks - 3) / length)) or 0
  tokens = math.min(math.max(tokens - saved, 0), 4294967295)
end
-- The write that may be refused for want of memory comes first: then nothing is counted.
redis.call('SETRANGE', KEYS[1], r - 1, struct.pack('<I3I6', requests + 1, sum + tokens))
redis.call('HSET', KEYS[2], ARGV[1], struct.pack(prompt and '<I2I4BB' or '<I2I4B', (r - 17) / 9, tokens, 0, blocks))
if not prompt then return {tied[k], requests + 1, sum + tokens} end
local at = hashes + 4 * tied[k]
note(KEYS, 3, known, ARGV[6], ARGV[7], places, string.sub(v, at, at + 3), now, ttl)
return {tied[k], requests + 1, sum + tokens, blocks, tokens}
