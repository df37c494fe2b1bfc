-- Returns the load of endpoints, summed over all owners.
--
-- KEYS     table rows
-- ARGV     addr...
-- Returns  for each address <I3I6: requests, tokens; 0 for an endpoint without a row. Behind that, while requests wait,
--          the beginning of the queue
local t, rows, out = redis.call('GETRANGE', KEYS[1], 0, -1), redis.call('HMGET', KEYS[2], unpack(ARGV)), {}
local queue = ''
if (string.byte(t, 16) or 0) > 0 then
  queue = redis.call('GETRANGE', string.sub(KEYS[1], 1, -6) .. 'queue', 0, 1359)
  if string.sub(queue, 1, 8) ~= string.sub(t, 1, 8) then queue = '' end
end
for i = 1, #ARGV do
  local load = rows[i] and string.sub(t, 17 + 9 * rows[i], 25 + 9 * rows[i]) or ''
  out[i] = #load == 9 and load or string.rep('\0', 9)
end
return table.concat(out) .. queue
