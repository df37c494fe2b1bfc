-- Makes a list of candidates known, and lets its owner count in the scope. Needed before reserve.lua. A long list
-- comes in parts, one command each. All but the last only find rows, and keep what the last needs.
--
-- KEYS     table rows owners own listed view parts...      view: of a part, where to keep it
-- ARGV     owner keep_ms view_ms classes hashes members addr...
--   classes  of the last part: <dddddd each: base, slope, weight, cap, room, steep; of others: empty
--   hashes   of the last part: the lower half of the hash of each address of the whole list
--   members  <I2 each: the class of a candidate of this part, counted from 0
-- Returns  1; 2 if rows were given, and so many other endpoints have rows that tidy.lua should take some; 0 if a part is
--          not here
-- The view it stores: the first 12 bytes of the table, <I2I2I2 classes, runs, and the time in ticks of prefix.lua, which
-- beats put forward. Then the classes, and <I2I2I2 for each run of candidates of one class in adjacent rows: class, first
-- row, how many. Then the hashes. A part: the same 12 bytes, <I2 rows given, and the runs.
local keep, addrs = tonumber(ARGV[2]), {}
for i = 7, #ARGV do addrs[i - 6] = ARGV[i] end
enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], keep)
local at, given, used = rows(KEYS[1], KEYS[2], addrs, keep)
if not at then return redis.error_reply('WGFULL too many endpoints in the scope') end
-- Rows are given in the order of addresses, so most candidates make a few runs that reserve.lua can walk through.
local head, runs, class, first, count = redis.call('GETRANGE', KEYS[1], 0, 11), {}, nil, 0, 0
local now = tonumber(redis.call('TIME')[1])
local listed = struct.pack('<I4', now)
for i = 1, #addrs + 1 do
  local c = i <= #addrs and struct.unpack('<I2', ARGV[6], 2 * i - 1)
  if class and c == class and at[i] == first + count then
    count = count + 1
  else
    if class then
      runs[#runs + 1] = struct.pack('<I2I2I2', class, first, count)
      redis.call('SETRANGE', KEYS[5], 4 * first, string.rep(listed, count))
    end
    class, first, count = c, at[i], 1
  end
end
redis.call('PEXPIRE', KEYS[5], 2 * keep)
runs = table.concat(runs)
if ARGV[4] == '' then
  redis.call('SET', KEYS[6], head .. struct.pack('<I2', given) .. runs, 'PX', ARGV[3])
  return 1
end
if #KEYS > 6 then
  local parts = redis.call('MGET', unpack(KEYS, 7))
  for i = 1, #KEYS - 6 do
    if not parts[i] or string.sub(parts[i], 1, 12) ~= head then return 0 end
    given = given + struct.unpack('<I2', parts[i], 13)
    parts[i] = string.sub(parts[i], 15)
  end
  runs = table.concat(parts) .. runs
end
local view = head .. struct.pack('<I2I2I2', #ARGV[4] / 48, #runs / 6, math.floor(now / 4) % 65536) .. ARGV[4] .. runs .. ARGV[5]
redis.call('SET', KEYS[6], view, 'PX', ARGV[3])
return given > 0 and used > 64 + #ARGV[5] / 2 and 2 or 1
