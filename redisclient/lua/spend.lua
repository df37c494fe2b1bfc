-- Reserves by budgets: chooses among the candidates by the rule of lb/budget, charges the budget of the chosen one, and
-- creates the lease. Idempotent: a lease that exists is returned.
--
-- KEYS     table own list budget
-- ARGV     id params, and for a request that waits: id params, nothing, wait, as in reserve.lua
--   params  <dd: tokens that the lease counts for and the budget is charged; tokens a second that are set aside for
--           who was refused before
-- Returns  as reserve.lua without blocks, then <dd: tokens and requests that are left there, -1 without a limit. If no
--          candidate can take the request {-7, <dI2dd: in how many ms one is expected to; its index; what is left}.
--          A request that waits is answered as in reserve.lua
--@use time budget_list budget_admit

-- known_left returns what is left of the budget of the candidate of a list v that has a row.
local function known_left(key, v, row)
  local b = read_budget(key)
  local o = find_row(b, v, row)
  if not o then return struct.pack('<dd', -1, -1) end
  advance(b.states, o, time_ms())
  return left(b.states, o)
end

--@use queue enqueue begin
local tokens, bonus = unpack('<dd', ARGV[2])
local n, places, limits, full, names = read_list(t, v)
local others = string.byte(t, 16) > 0 -- wait
local b, extra = read_budget(KEYS[4]), others and not waits and open_queue(KEYS[1], t, sub(KEYS[2], #KEYS[1])).asides()
now = time_ms()
local k, o, ms, is_other = admit(b, n, names, limits, full, now, tokens, bonus, nil, extra, waits and others)
if ms and is_other and not (waits and others) then write_budget(KEYS[4], b, now) end
if waits and (ms or others) then
  -- expected returns in how many ms it is likely to be placed, by its budgets alone.
  local function expected(q)
    n, places, limits, full, names = read_list(call('GETRANGE', KEYS[1], '0', '-1'), v)
    local _, _, later = admit(read_budget(KEYS[4]), n, names, limits, full, now, tokens, bonus, nil, q.asides(), true)
    return math.ceil(later or 0)
  end
  return (enqueue(KEYS, ARGV, t, v, {full = ms ~= nil, wanted = 65535, tokens = tokens, bonus = bonus,
    budgets = sub(v, first + 6 * runs + 4 * n), expected = expected, known_left = known_left}))
end
if ms then return {-7, pack('<dI2', math.ceil(ms), k - 1) .. left(b.states, o)} end
local r = places[k]
local requests, sum = unpack('<I3I6', t, r)
-- The write that Redis may refuse when it is out of memory comes first, so that then nothing is counted.
call('SETRANGE', KEYS[1], r - 1, pack('<I3I6', requests + 1, sum + tokens))
call('HSET', KEYS[2], ARGV[1], pack('<I2I4B', (r - 17) / 9, tokens, 0))
write_budget(KEYS[4], b, now)
return pack('<I2I4I8', k - 1, requests + 1, sum + tokens) .. left(b.states, o)
