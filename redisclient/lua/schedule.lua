-- Schedules a task: places it by the rule of lb/budget, charges the budget and counts the task, which lives for a while
-- unless it is renewed. The key of a task that lives gives that one, and so does its id: then the command came twice.
--
-- KEYS     table list budget tasks expiry
-- ARGV     id key ttl_ms keep_ms params owner
--   id       16 bytes, which end in a mark and 2 bytes of the call; key: 8 bytes, zeros for none
--   keep_ms  how long the table lives without heartbeats
--   params   <dddd: as in spend.lua; in how many ms who is refused asks again at the latest, 0 for no such time; 1 if
--            the caps are the caller's own: see lb.Budget
-- Returns  the id, then as spend.lua; or that and the grants (queue.lua), if there are some. If no target can take the
--          task as spend.lua, and the grants if there are some. {-3}: Redis does not have the list, run candidates.lua
--          first. {-9}: the task that has the key is of another call
local tablekey, lists = KEYS[1], redis.call('MGET', KEYS[1], KEYS[2])
local t, v = lists[1] or '', lists[2]
local head = string.sub(t, 1, 16)
local epoch = string.sub(head, 1, 8)
--@use budget_list budget_admit budget_refusals ending
local call, sub, unpack = redis.call, string.sub, struct.unpack
local id, own, ttl = ARGV[1], ARGV[2] ~= NO_KEY and ARGV[2] or nil, tonumber(ARGV[3])
if not v or sub(v, 1, 12) ~= sub(t, 1, 12) then return {-3} end
local other = own and call('HGET', tasks, 'k' .. own)
if other and sub(other, 13, 14) == sub(id, 13, 14) and sub(other, 15) ~= sub(id, 15) then
  other = find(other)
  if other and other.ended == 0 and now < other.till then return {-9} end
end
sweep(SWEEP)
if #freed > 0 then t = call('GETRANGE', tablekey, 0, -1) end
local marks = own and call('HMGET', tasks, 'b', 't', id, 'k' .. own) or call('HMGET', tasks, 'b', 't', id)
local tokens, bonus, most, own_caps = unpack('<dddd', ARGV[5])
local n, places, limits, full, names = read_list(t, v)
local known = marks[3] and parse(id, marks[3]) or marks[4] and find(marks[4])
if known and (known.ended == 0 or known.id == id) then
  local i = 0
  for name in string.gmatch(names, '[^\n]+') do
    if name == known.addr then
      if known.ended == 0 then
        known.ttl, known.till = ttl, now + ttl
        put(known)
      end
      local b = charged()
      local o = find_target(b, name)
      if o then advance(b.states, o, now) end
      local requests, sum = unpack('<I3I6', t, places[i + 1])
      return ending(known.id .. struct.pack('<I2I4I8', i, requests, sum) .. (o and left(b.states, o) or
        struct.pack('<dd', -1, -1)))
    end
    i = i + 1
  end
  if known.ended == 0 then
    abandon(known)
    t = call('GETRANGE', tablekey, 0, -1)
    n, places, limits, full, names = read_list(t, v)
  end
end
local b = charged()
local extra = string.byte(t, 16) > 0 and open_queue(tablekey, t, ARGV[6]).asides()
local has_share, told = own_caps > 0, false
-- is_told returns whether the refusal is not remembered, of a task that the target with the number may take first.
local function is_told(first)
  told = not own or bonus <= 0 or not refusal(b, own) and not has_room(b, has_share and full[first])
  return told
end
local k, o, ms = admit(b, n, names, limits, full, now, tokens, bonus, own, extra, false, is_told, has_share)
if ms then
  if told then tell(b.states, o, ms, tokens, full[k]) end
  ms = math.ceil(ms)
  if not told then
    remember(b, own, now, now + 1.1 * (most > 0 and math.min(ms, most) or ms) + 1100,
      has_share and full[k] and 0 or tokens, o)
  end
  close()
  return {-7, struct.pack('<dI2', ms, k - 1) .. left(b.states, o), granted()}
end
if own then forget_refusal(b, own) end
local r = places[k]
local requests, sum = unpack('<I3I6', t, r)
-- The write that Redis may refuse when it is out of memory comes first, so that then nothing is counted.
call('SETRANGE', tablekey, r - 1, struct.pack('<I3I6', requests + 1, sum + tokens))
local i, addr = k - 1, nil
for name in string.gmatch(names, '[^\n]+') do
  if k > 0 then k, addr = k - 1, name end
end
put({id = id, ended = 0, row = (r - 17) / 9, tokens = tokens, ttl = ttl, till = now + ttl, epoch = epoch,
  key = ARGV[2], addr = addr})
if own then call('HSET', tasks, 'k' .. own, id) end
if not marks[1] then
  call('ZADD', expiry, '+inf', 'b')
  local owners = unpack('<I3', head, 13) -- if it has FLAG, the table counts tasks that were lost: 0 is never right
  call('SETRANGE', tablekey, 12, struct.pack('<I3', owners < FLAG and owners + FLAG or 0))
end
if not marks[1] or ttl > tonumber(marks[2]) then
  call('HSET', tasks, 't', ARGV[3], 'b', marks[1] or epoch)
  local life = string.format('%d', 2 * ARGV[4] + 2 * ttl)
  call('PEXPIRE', tasks, life)
  call('PEXPIRE', expiry, life)
end
return ending(id .. struct.pack('<I2I4I8', i, requests + 1, sum + tokens) .. left(b.states, o))
