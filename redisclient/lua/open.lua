-- Makes a list of candidates known, and lets its owner count in the scope. Needed before reserve.lua.
--
-- KEYS     table rows owners own view
-- ARGV     owner keep_ms view_ms classes members hashes addr...
--   classes  <dddddd each: base, slope, weight, cap, room, steep    members  <I2 each: the class of a candidate, counted from 0
--   hashes   the lower half of the hash of each address
-- Returns  1
-- The view it stores: the first 12 bytes of the table, <I2I2 classes and runs, the classes, and <I2I2I2 for each run of
-- candidates of one class in adjacent rows: class, first row, how many. Then the hashes.
local keep, view_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local addrs = {}
for i = 7, #ARGV do addrs[i - 6] = ARGV[i] end
enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], keep)
local at = rows(KEYS[1], KEYS[2], addrs, keep, true)
if not at then return redis.error_reply('WGFULL too many endpoints in the scope') end
-- Rows are given in the order of addresses, so most candidates make a few runs that reserve.lua can walk through.
local runs = {}
for i = 1, #addrs do
  local class, last = struct.unpack('<I2', ARGV[5], 2 * i - 1), runs[#runs]
  if last and last.class == class and last.row + last.count == at[i] then
    last.count = last.count + 1
  else
    runs[#runs + 1] = {class = class, row = at[i], count = 1}
  end
end
for i, run in ipairs(runs) do runs[i] = struct.pack('<I2I2I2', run.class, run.row, run.count) end
redis.call('SET', KEYS[5], redis.call('GETRANGE', KEYS[1], 0, 11) .. struct.pack('<I2I2', #ARGV[4] / 48, #runs) ..
  ARGV[4] .. table.concat(runs) .. ARGV[6], 'PX', view_ms)
return 1
