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
local places, n, byte = {}, 0, string.byte -- places: where the row of each candidate is in the table
for run = first, first + 6 * (runs - 1), 6 do
  local _, from, count = unpack('<I2I2I2', v, run)
  for r = 17 + 9 * from, 8 + 9 * (from + count), 9 do
    n = n + 1
    places[n] = r
  end
end
local behind, full = first + 6 * runs + 4 * n, {}
now = time_ms()
local limits = numbers(v, behind, 5 * n)
for i = 1, n do
  local r, cap, token_cap = places[i], limits[5 * i - 1], limits[5 * i]
  local low, mid, high = byte(t, r, r + 2)
  if cap > 0 and low + 256 * mid + 65536 * high >= cap or token_cap > 0 and unpack('<I6', t, r + 3) >= token_cap then
    full[i] = true
  end
end
local b = read_budget(KEYS[4])
local k, o, ms, is_other = admit(b, n, sub(v, behind + 40 * n), limits, full,
  now, tokens, bonus)
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
