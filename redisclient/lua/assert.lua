-- Counts leases that an owner holds and that are not counted here: data was lost, or they were granted without us.
--
-- KEYS     table rows owners own
-- ARGV     owner keep_ms, then id tokens addr for each lease
-- Returns  how many were missing
local keep, addrs = tonumber(ARGV[2]), {}
for i = 3, #ARGV, 3 do addrs[#addrs + 1] = ARGV[i + 2] end
enter(KEYS[1], KEYS[3], KEYS[4], ARGV[1], keep)
local at = rows(KEYS[1], KEYS[2], addrs, keep)
if not at then return redis.error_reply('WGFULL too many endpoints in the scope') end
local missing = 0
for i = 3, #ARGV, 3 do
  if redis.call('HEXISTS', KEYS[4], ARGV[i]) == 0 then
    local row = at[i / 3]
    add(KEYS[1], row, 1, tonumber(ARGV[i + 1]))
    redis.call('HSET', KEYS[4], ARGV[i], struct.pack('<I2I5', row, tonumber(ARGV[i + 1])))
    missing = missing + 1
  end
end
return missing
