-- The beginning of the scripts that reserve (reserve.lua, spend.lua): looks whether Redis has what the reservation
-- needs, and returns a lease that exists.
local call, prompt, waits, home = redis.call, KEYS[4], ARGV[4], ARGV[5]
if waits == '' then waits = nil end
local lease = call('HMGET', KEYS[2], 'b', ARGV[1])
local data = call('MGET', KEYS[1], KEYS[3])
local sub, unpack, pack = string.sub, struct.unpack, struct.pack
local t, v = data[1], data[2]
if not t or not v or lease[1] ~= sub(t, 1, 8) or sub(v, 1, 12) ~= sub(t, 1, 12) then return {-3} end
if lease[2] == '' then
  call('HDEL', KEYS[2], ARGV[1])
  return {-2}
end
local old = waits and not lease[2] and sub(waits, 75) or '' -- the id under which the request has waited so far
local known = old ~= '' and call('HMGET', KEYS[2], old, 'g')
if known and known[1] and #known[1] < 9 and known[1] ~= '' then
  lease[2] = known[1]
elseif known and not known[1] then
  for entry = 9, #(known[2] or ''), 25 do
    if sub(known[2], entry, entry + 9) == old .. '\255\255' then return {-5, 0} end -- it was evicted
  end
end
local classes, runs, now, first_class = unpack('<I2I2I2', v, 13)
local first = first_class + 56 * classes
if lease[2] and #lease[2] > 8 then
  local waiting = enqueue(KEYS, ARGV, t, v)
  if waiting then return waiting end
  lease[2] = nil -- its ticket was lost
end
if lease[2] then
  if waits then -- its owner knows of it from now on: see queue.lua
    local untold, owner = sub(KEYS[1], 1, -6) .. 'untold', sub(KEYS[2], #KEYS[1])
    local s, kept = call('HGET', untold, owner) or '', ''
    for entry = 1, #s, 25 do
      if sub(s, entry, entry + 7) ~= ARGV[1] then kept = kept .. sub(s, entry, entry + 24) end
    end
    if kept ~= s then call('HSET', untold, owner, kept) end
  end
  local row, i = unpack('<I2', lease[2]), 0
  for run = first, first + 6 * (runs - 1), 6 do
    local _, from, count = unpack('<I2I2I2', v, run)
    if row >= from and row < from + count then
      local requests, sum = unpack('<I3I6', t, 17 + 9 * row)
      local tokens, _, cached = unpack('<I4BB', lease[2] .. '\0', 3)
      local answer = pack('<I2I4I8', i + row - from, requests, sum)
      if known then
        call('HSET', KEYS[2], ARGV[1], lease[2])
        call('HDEL', KEYS[2], old)
      end
      if not KEYS[4] then return answer end
      if (ARGV[3] or '') ~= '' then return answer .. pack('<BI4', cached, tokens) end
      return answer .. known_left(KEYS[4], v, row)
    end
    i = i + count
  end
  if not known then return {-3} end -- else its owner releases what it was granted, and it waits again
end
