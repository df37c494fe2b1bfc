-- Reserves by budgets: chooses among the candidates by the rule of lb/budget, charges the budget of the chosen one, and
-- creates the lease. The texts of budget.lua and begin.lua precede this one. Idempotent: a lease that exists is
-- returned.
--
-- KEYS     table own list budget
-- ARGV     id params
--   params  <dd: tokens that the lease counts for and the budget is charged; tokens a second that are set aside for
--           who was refused before
-- Returns  as reserve.lua without blocks, then <dd: tokens and requests that are left there, -1 without a limit. If no
--          candidate can take the request {-7, <dI2dd: in how many ms one is expected to; its index; what is left}
local tokens, bonus = unpack('<dd', ARGV[2])
local n, places, limits, full, names = read_list(t, v)
local b = read_budget(KEYS[4])
now = time_ms()
local k, o, ms, is_other = admit(b, n, names, limits, full, now, tokens, bonus)
if ms then
  if is_other then write_budget(KEYS[4], b, now) end
  return {-7, pack('<dI2', math.ceil(ms), k - 1) .. left(b.states, o)}
end
local r = places[k]
local requests, sum = unpack('<I3I6', t, r)
-- The write that Redis may refuse when it is out of memory comes first, so that then nothing is counted.
call('SETRANGE', KEYS[1], r - 1, pack('<I3I6', requests + 1, sum + tokens))
call('HSET', KEYS[2], ARGV[1], pack('<I2I4B', (r - 17) / 9, tokens, 0))
write_budget(KEYS[4], b, now)
return pack('<I2I4I8', k - 1, requests + 1, sum + tokens) .. left(b.states, o)
