-- Returns the load of endpoints, summed over all owners.
--
-- KEYS     table rows
-- ARGV     addr...
-- Returns  for each address <I3I6: requests, tokens; 0 for an endpoint without a row
local t, rows, out = redis.call('GETRANGE', KEYS[1], 0, -1), redis.call('HMGET', KEYS[2], unpack(ARGV)), {}
for i = 1, #ARGV do
  local load = rows[i] and string.sub(t, 17 + 9 * rows[i], 25 + 9 * rows[i]) or ''
  out[i] = #load == 9 and load or string.rep('\0', 9)
end
return table.concat(out)
