-- Takes the cheapest candidate below its cap, by the rule of lb.Choose, and counts the request there. With the blocks of its
-- prompt, and prefix.lua in front, it prefers those that have the beginning of it, and notes that the chosen one has it all.
--
-- KEYS     table own view, and with blocks: the page of each run...
-- ARGV     id tokens unit tie      unit 0: requests, 1: tokens
--          with blocks also: terms counts blocks ends, and, where that is not the same, worths
--   terms   <dddd: credit, length of the prompt, its tokens, ms to remember it; then for each endpoint that keeps it for less <I4I2:
--           the lower half of the hash of its address, and for how many ticks
--   counts  of each run, how many blocks, 1 byte
--   blocks  their keys of 8 bytes        ends    <I4 each, in the unit of the length
--   worths  what it is worth to have the first blocks, up to each: <I4, in the same unit
-- Returns  {candidate from 0, requests, tokens} with this request on it, and with blocks also how many of them it has, and the
--          tokens that were counted; {-1} all are full, {-2} it was released before it ran, {-3} the view is not known here
--          or the owner not entered: open.lua first
local prompt = KEYS[4]
local lease = redis.call('HMGET', KEYS[2], 'b', ARGV[1])
local data = redis.call('MGET', unpack(KEYS)) -- what is no string, as the second, is no matter
local t, v = data[1], data[3]
if not t or not v or lease[1] ~= string.sub(t, 1, 8) or string.sub(v, 1, 12) ~= string.sub(t, 1, 12) then return {-3} end
if lease[2] == '' then
  redis.call('HDEL', KEYS[2], ARGV[1])
  return {-2}
end
local byte, unpack = string.byte, struct.unpack
local classes, runs, at = unpack('<I2I2', v, 13)
local first = at + 48 * classes
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
local places, held, credit, cached, now, length, prompt_tokens, ttl
local hashes = first + 6 * runs
if prompt then
  local whole, deepest
  whole, length, prompt_tokens, ttl = unpack('<dddd', ARGV[5])
  now = math.floor(redis.call('TIME')[1] / 4) % 65536
  places, held, deepest = recall(data, 3, ARGV[6], ARGV[7], now, math.floor(ttl / 4000), shorter(ARGV[5]))
  if deepest then credit, cached = credits(deepest, ARGV[9] or ARGV[8], v, hashes, whole, length) end
end
local tied, ties, least, i = {}, 0, math.huge, 0
for run = first, first + 6 * (runs - 1), 6 do
  local c, from, count = unpack('<I2I2I2', v, run)
  local base, slope, weight, cap, room, steep = unpack('<dddddd', v, at + 48 * c)
  for part = from, from + count - 1, 256 do
    local n, r = math.min(256, from + count - part), 17 + 9 * part
    -- One call for many rows costs less than one for each.
    local loads = by_tokens and {unpack('<' .. string.rep('xxxI6', n), t, r)}
    for k = 1, n do
      local load, full = loads and loads[k], false
      if not load or cap > 0 then
        local x, y, z = byte(t, r, r + 2)
        x = x + 256 * y + 65536 * z
        load, full = load or x, cap > 0 and x >= cap
      end
      if not full then
        load = load + added
        local cost = base + slope * load / weight
        if load > room then cost = cost + steep * (load - room) / weight end
        if credit then cost = cost - (credit[i] or 0) end
        if cost <= least then
          if cost < least then least, ties = cost, 0 end
          ties = ties + 1
          tied[ties] = 65536 * r + i
        end
      end
      i, r = i + 1, r + 9
    end
  end
end
if ties == 0 then return {-1} end
local k = tied[1 + tonumber(ARGV[4]) % ties]
local i, r = k % 65536, math.floor(k / 65536)
local requests, sum = unpack('<I3I6', t, r)
local blocks = cached and cached[i] or 0
if prompt then -- what is cached need not be computed
  local saved = blocks > 0 and math.floor(prompt_tokens * (unpack('<I4', ARGV[8], 4 * blocks - 3) / length)) or 0
  tokens = math.min(math.max(tokens - saved, 0), 4294967295)
end
-- The write that may be refused for want of memory comes first: then nothing is counted.
redis.call('SETRANGE', KEYS[1], r - 1, struct.pack('<I3I6', requests + 1, sum + tokens))
redis.call('HSET', KEYS[2], ARGV[1], struct.pack(prompt and '<I2I4BB' or '<I2I4B', (r - 17) / 9, tokens, 0, blocks))
if not prompt then return {i, requests + 1, sum + tokens} end
local at = hashes + 4 * i
note(KEYS, 3, data, ARGV[6], ARGV[7], places, held, string.sub(v, at, at + 3), now, ttl)
return {i, requests + 1, sum + tokens, blocks, tokens}
