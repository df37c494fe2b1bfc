-- Releases leases. Idempotent. For what happens when Redis answers late see ../late.go.
--
-- KEYS     table own
-- ARGV     granted own_ms id...
--   granted  1 if the answers to the reservations were received; 0 if not: then a reservation may still run after this
--            command, and a tombstone is left for it
--   own_ms   how long a hash lives that has only tombstones
-- Returns  how many of the leases were held
local lease = redis.call('HMGET', KEYS[2], 'b', unpack(ARGV, 3))
local live = lease[1] and lease[1] == redis.call('GETRANGE', KEYS[1], 0, 7)
local held = 0
for i = 3, #ARGV do
  local l = lease[i - 1]
  if l and (l ~= '' or ARGV[1] == '1') then
    redis.call('HDEL', KEYS[2], ARGV[i])
    if l ~= '' and live then
      local row, tokens = struct.unpack('<I2I4', l)
      local at = 16 + 9 * row
      local requests, sum = struct.unpack('<I3I6', redis.call('GETRANGE', KEYS[1], at, at + 8))
      redis.call('SETRANGE', KEYS[1], at, struct.pack('<I3I6', math.max(0, requests - 1), math.max(0, sum - tokens)))
      held = held + 1
    end
  elseif not l and ARGV[1] == '0' then
    redis.call('HSET', KEYS[2], ARGV[i], '')
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
  end
end
return held
