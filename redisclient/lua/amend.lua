-- Corrects a lease: other tokens, or another endpoint.
--
-- KEYS     table rows own
-- ARGV     keep_ms id tokens addr      addr "" leaves the endpoint
-- Returns  1, or 0 when the lease is not held
local lease = redis.call('HMGET', KEYS[3], 'b', ARGV[2])
if not lease[2] or lease[2] == '' or lease[1] ~= redis.call('GETRANGE', KEYS[1], 0, 7) then return 0 end
local row, tokens = struct.unpack('<I2I5', lease[2])
local to = row
if ARGV[4] ~= '' then
  local at = rows(KEYS[1], KEYS[2], {ARGV[4]}, tonumber(ARGV[1]))
  if not at then return redis.error_reply('WGFULL too many endpoints in the scope') end
  to = at[1]
end
add(KEYS[1], row, -1, -tokens)
add(KEYS[1], to, 1, tonumber(ARGV[3]))
redis.call('HSET', KEYS[3], ARGV[2], struct.pack('<I2I5', to, tonumber(ARGV[3])))
return 1
