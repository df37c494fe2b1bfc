-- Makes a list of candidates known, and lets its owner count in the scope. Needed before reserve.lua.
--
-- KEYS     table rows owners own view
-- ARGV     owner keep_ms view_ms classes members addr...
--   classes  <dddd each: base, slope, weight, cap    members  <I2 each: the class of a candidate, counted from 0
-- Returns  1
local keep, view_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local addrs = {unpack(ARGV, 6)}
enter(KEYS[1], KEYS[3], KEYS[4], ARGV[1], keep)
local at = rows(KEYS[1], KEYS[2], addrs, keep, true)
if not at then return redis.error_reply('WGFULL too many endpoints in the scope') end
local out = {redis.call('GETRANGE', KEYS[1], 0, 11), struct.pack('<I2I2', #ARGV[4] / 32, #addrs), ARGV[4]}
for i = 1, #addrs do
  out[#out + 1] = string.sub(ARGV[5], 2 * i - 1, 2 * i) .. struct.pack('<I2', at[i])
end
redis.call('SET', KEYS[5], table.concat(out), 'PX', view_ms)
return 1
