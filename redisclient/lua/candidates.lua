-- Stores a list of candidates, and enters its owner into the scope. Needed before reserve.lua. A long list comes in
-- parts, one command each. All but the last only assign rows and store their part; the last puts the parts together.
--
-- KEYS     table rows owners own listed list parts...
--   list     the key of the list, or of the part if this is not the last one
--   parts    the keys of the other parts, if this is the last one
-- ARGV     owner keep_ms list_ms classes hashes members budgets addr...
--   classes  in the last part: <ddddddd each: base, slope, weight, cap, capacity, over_slope, cap in tokens; one also
--            for a list without candidates. In the others: empty
--   hashes   in the last part: the lower half of the hash of each address of the whole list, 4 bytes each
--   members  <I2 each: the class of a candidate of this part, counted from 0
--   budgets  in the last part of a list with budgets: for each address of the whole list <ddddd: weight; tokens and
--            requests a minute, 0 for no limit; caps of requests and of tokens in flight, 0 for none. Then for each its
--            address and "\n". Else empty
-- Returns  1; 2 if endpoints were given rows, and so many others have rows that free_rows.lua should run; 0 if a part
--          is missing
-- Format of a list: the first 12 bytes of the table; <I2I2I2: classes, runs, and the time in ticks (see prefix.lua),
-- which heartbeats update; the classes; for each run of candidates of one class in adjacent rows <I2I2I2: class, first
-- row, number of rows; the hashes; the budgets. Format of a part: the same 12 bytes; <I2: rows that were given; the
-- runs.
--@use shared
local keep, addrs = tonumber(ARGV[2]), {}
for i = 8, #ARGV do addrs[i - 7] = ARGV[i] end
enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], keep)
local at, given, used = {}, 0, 0
if #addrs > 0 then at, given, used = rows(KEYS[1], KEYS[2], addrs, keep) end
if not at then return redis.error_reply('WGFULL too many endpoints in the scope') end
-- Rows are given in the order of the list, so most lists are a few runs.
local head, runs, class, first, count = redis.call('GETRANGE', KEYS[1], 0, 11), {}, nil, 0, 0
local seconds = tonumber(redis.call('TIME')[1])
local listed = struct.pack('<I4', seconds)
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
local sizes = struct.pack('<I2I2I2', #ARGV[4] / 56, #runs / 6, math.floor(seconds / 4) % 65536)
redis.call('SET', KEYS[6], head .. sizes .. ARGV[4] .. runs .. ARGV[5] .. ARGV[7], 'PX', ARGV[3])
return given > 0 and used > 64 + #ARGV[5] / 2 and 2 or 1
