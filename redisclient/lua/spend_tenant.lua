-- Reserves by the budget of a tenant: charges it, and creates the lease, or refuses. Its work does not depend on the
-- number of tenants. Idempotent: a lease that exists is returned. It enters the owner into the scope where that is
-- missing: no list comes before it.
--
-- KEYS     table rows owners own tenants
-- ARGV     addr id owner keep_ms params
--   params <dddddd: tokens that the lease counts for and the budget is charged; and of the tenant what candidates.lua
--          has of a target
-- Returns  as spend.lua
--@use shared tenant budget_admit
local FEW, SOME = 512, 16 -- up to FEW rows nothing is forgotten: Redis returns all of a small hash, whatever COUNT is
local keep, at = tonumber(ARGV[4]), time_ms()

-- forget_some looks at some of the tenants, and forgets those that have nothing in flight and an unused budget: their
-- states, and their rows, which others may have. It runs for each new row, so there are never many to forget. Should a
-- list have such rows, it is void in the new generation.
local function forget_some(head)
  if #head < 16 or string.byte(head, 16) > 0 or redis.call('STRLEN', KEYS[1]) < HEAD + ROW * FEW then return end
  local place = redis.call('HGET', KEYS[5], '') or '5 0 0'
  local which, cursor, other = string.match(place, '(%d) (%d+) (%d+)')
  local part = redis.call('HSCAN', KEYS[tonumber(which)], cursor, 'COUNT', SOME)
  redis.call('HSET', KEYS[5], '', 7 - which .. ' ' .. other .. ' ' .. part[1])
  local spare = {}
  for i = 1, math.min(#part[2], 4 * SOME), 2 do
    local name, state = part[2][i], part[2][i + 1]
    if name ~= '' then
      if which == '2' then state = redis.call('HGET', KEYS[5], name) end
      if not state or is_unused(numbers(state, 1, WIDTH), 0, at) then
        local row = redis.call('HGET', KEYS[2], name)
        if not row or load(KEYS[1], row) == 0 then
          redis.call('HDEL', KEYS[5], name)
          if row then spare[#spare + 1] = struct.pack('<I2', row) end
          redis.call('HDEL', KEYS[2], name) -- before the next one: HSCAN may return a name twice
        end
      end
    end
  end
  if #spare == 0 then return end
  redis.call('HSET', KEYS[2], '', (redis.call('HGET', KEYS[2], '') or '') .. table.concat(spare))
  redis.call('SETRANGE', KEYS[1], 8, struct.pack('<I4', (struct.unpack('<I4', head, 9) + 1) % 2 ^ 32))
end

local lease, head = redis.call('HMGET', KEYS[4], 'b', ARGV[2]), redis.call('GETRANGE', KEYS[1], 0, 15)
if not lease[1] or lease[1] ~= string.sub(head, 1, 8) then
  enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[3], keep)
  lease, head = redis.call('HMGET', KEYS[4], 'b', ARGV[2]), redis.call('GETRANGE', KEYS[1], 0, 15)
end
if lease[2] == '' then
  redis.call('HDEL', KEYS[4], ARGV[2])
  return {-2}
end
local b = read_budget(KEYS[5])
if lease[2] then
  if #b.states == 0 then b.states = numbers(string.rep('\0', 8 * WIDTH), 1, WIDTH) end
  advance(b.states, 0, at)
  return struct.pack('<I2I4I8', 0, load(KEYS[1], struct.unpack('<I2', lease[2]))) .. left(b.states, 0)
end
local row = redis.call('HGET', KEYS[2], ARGV[1])
if not row then
  forget_some(head)
  row = rows(KEYS[1], KEYS[2], {ARGV[1]}, keep)
  if not row then return redis.error_reply('WGFULL too many tenants in the scope') end
  row = row[1]
end
local requests, sum = load(KEYS[1], row)
local tokens, limits = struct.unpack('<d', ARGV[5]), numbers(ARGV[5], 9, 5)
local cap, token_cap = limits[4], limits[5]
local full = {cap > 0 and requests >= cap or token_cap > 0 and sum >= token_cap}
local _, o, ms, is_other = admit(b, 1, ARGV[1] .. '\n', limits, full, at, tokens, 0)
if ms then
  if is_other then write_budget(KEYS[5], b) end
  return {-7, struct.pack('<dI2', math.ceil(ms), 0) .. left(b.states, o)}
end
-- The write that Redis may refuse when it is out of memory comes first, so that then nothing is counted.
redis.call('SETRANGE', KEYS[1], HEAD + ROW * row, struct.pack('<I3I6', requests + 1, sum + tokens))
redis.call('HSET', KEYS[4], ARGV[2], struct.pack('<I2I4B', row, tokens, 0))
write_budget(KEYS[5], b)
return struct.pack('<I2I4I8', 0, requests + 1, sum + tokens) .. left(b.states, o)
