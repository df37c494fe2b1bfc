-- Amends a lease: other tokens, or another endpoint. What becomes free is granted to those that wait.
--
-- KEYS     table rows own
-- ARGV     keep_ms id tokens version addr
-- Returns  1, or {1, the grants (queue.lua)} if there are some; 0 if the owner does not hold the lease, or if the rows
--          are lost, which the next heartbeat repairs
--@use shared queue
local lease = redis.call('HMGET', KEYS[3], 'b', ARGV[2])
local head = redis.call('GETRANGE', KEYS[1], 0, 15)
if not lease[2] or lease[2] == '' or #lease[2] > 8 or lease[1] ~= string.sub(head, 1, 8) then return 0 end
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
local at = rows(KEYS[1], KEYS[2], {ARGV[5]}, tonumber(ARGV[1]))
if not at then return redis.error_reply('WGFULL too many endpoints in the scope') end
put_lease(KEYS[1], KEYS[3], ARGV[2], at[1], tonumber(ARGV[3]), tonumber(ARGV[4]))
local from, before = struct.unpack('<I2I4', lease[2])
local waits = string.byte(head, 16) -- some may be for tokens if it is 2
if waits > 0 and from ~= at[1] or waits == 2 and tonumber(ARGV[3]) < before then
  local queue = open_queue(KEYS[1], head, string.sub(KEYS[3], #KEYS[1]))
  queue.dispatch({from})
  queue.save()
  local grants = queue.grants()
  if grants then return {1, grants} end
end
return 1
