-- Counts leases that an owner holds and that Redis may not count as they are, because data were lost or because the
-- gateway granted them without Redis.
--
-- KEYS     table rows owners own
-- ARGV     owner keep_ms, then id tokens version addr for each lease
-- Returns  how many of them were not counted as they are
--@use shared
local keep, addrs = tonumber(ARGV[2]), {}
for i = 3, #ARGV, 4 do addrs[#addrs + 1] = ARGV[i + 3] end
enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], keep)
local at = rows(KEYS[1], KEYS[2], addrs, keep)
if not at then return redis.error_reply('WGFULL too many endpoints in the scope') end
local missing = 0
for k = 1, #addrs do
  local i = 4 * k - 1
  missing = missing + put_lease(KEYS[1], KEYS[4], ARGV[i], at[k], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
end
return missing
