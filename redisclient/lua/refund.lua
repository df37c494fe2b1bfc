-- Takes back a reservation by budgets whose answer the owner did not receive: releases its lease, and gives the target
-- back what it was charged, because that does not get the request. Idempotent.
--
-- KEYS     as for spend.lua: table own list budget
-- ARGV     as for spend.lua: id params; then own_ms, as for release.lua
-- Returns  as release.lua. If the lease was not held a tombstone is left, since the reservation may still run
--@use time budget_correct budget_list release
local lease, list = redis.call('HGET', KEYS[2], ARGV[1]), redis.call('MGET', KEYS[3])[1]
local answer = release({KEYS[1], KEYS[2]}, {'0', ARGV[#ARGV], ARGV[1]})
if answer == 0 or #lease > 8 or not list then return answer end
if string.sub(list, 1, 8) ~= redis.call('GETRANGE', KEYS[1], 0, 7) then return answer end
local row, tokens = struct.unpack('<I2I4', lease)
local b, now = read_budget(KEYS[4]), time_ms()
local o = find_row(b, list, row)
if o then
  correct_target(b.states, o, now, -tokens, -1)
  write_budget(KEYS[4], b, now)
end
return answer
