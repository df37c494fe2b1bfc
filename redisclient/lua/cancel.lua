-- Takes back a reservation with prefix blocks whose answer the owner did not receive: releases its lease, and forgets
-- the prompt at the endpoint that was chosen, because that does not get the request. Idempotent.
--
-- KEYS     as for reserve.lua: table own list pages
-- ARGV     as for reserve.lua: id params chain, perhaps wait and home; then own_ms, as for release.lua
-- Returns  as release.lua. If the lease was not held a tombstone is left, since the reservation may still run
--@use release forget
local lease, list = redis.call('HGET', KEYS[2], ARGV[1]), redis.call('MGET', KEYS[3])[1]
local answer, count = release({KEYS[1], KEYS[2]}, {'0', ARGV[#ARGV], ARGV[1]}), string.byte(ARGV[2], 26)
local n = count - string.byte(ARGV[2], 27)
if answer == 0 or #lease > 8 or not list then return answer end
if string.sub(list, 1, 8) ~= redis.call('GETRANGE', KEYS[1], 0, 7) then return answer end
local row, _, _, cached = struct.unpack('<I2I4BB', lease .. '\0')
if cached > n then -- it was an inner block: the blocks before it were there
  local upto = struct.unpack('<I4', ARGV[3], 11 * count + 4 * cached - 3)
  cached = 0
  while struct.unpack('<I4', ARGV[3], 11 * count + 4 * cached + 1) < upto do cached = cached + 1 end
end
local classes, runs = struct.unpack('<I2I2', list, 13)
local first, i = 19 + 56 * classes, 0
for run = first, first + 6 * (runs - 1), 6 do
  local _, from, many = struct.unpack('<I2I2I2', list, run)
  if row >= from and row < from + many then
    local at = first + 6 * runs + 4 * (i + row - from)
    forget({KEYS[4]}, {string.sub(list, at, at + 3), string.sub(ARGV[3], 1, 11 * n), cached + 1})
    break
  end
  i = i + many
end
return answer
