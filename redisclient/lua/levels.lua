-- Returns the load of endpoints, summed over all owners, and what is left of their budgets. It changes nothing.
--
-- KEYS     table rows budget
-- ARGV     addr...
-- Returns  <d: this server's time in ms. For each address <I3I6ddddddddddd: requests, tokens, and its state as it was
--          when it was last written; 0 for what is not known
--@use time budget_key
local t, rows = redis.call('GETRANGE', KEYS[1], 0, -1), redis.call('HMGET', KEYS[2], unpack(ARGV))
local b, places, o, out = read_budget(KEYS[3]), {}, 0, {struct.pack('<d', time_ms())}
for name in string.gmatch(b.names, '[^\n]+') do
  places[name], o = o, o + WIDTH
end
for i = 1, #ARGV do
  local load, at, state = rows[i] and string.sub(t, 17 + 9 * rows[i], 25 + 9 * rows[i]) or '', places[ARGV[i]], {}
  for k = 1, WIDTH do state[k] = at and b.states[at + k] or 0 end
  out[i + 1] = (#load == 9 and load or string.rep('\0', 9)) .. packed(state)
end
return table.concat(out)
