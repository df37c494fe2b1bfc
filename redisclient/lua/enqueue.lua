-- Puts a request into the queue, unless it may not wait there. If an endpoint that it may use is open and its turn has
-- come, it is granted that at once.
--
-- KEYS     as for reserve.lua
-- ARGV     as for reserve.lua
--   wait   <I4I4I4I4I4I2I2BI2BdI4I4I4I4I6I4I4: for how many ms it has waited already, 4294967295 for a new request;
--          max, aging, patience, and the delay of computing its whole prompt (lb.Prefix.DelayMillis), 0 if
--          unknown, in ms; skip; class; rank; places reserved for the class; 1 for strict order; weight;
--          length of the queue; length for one tenant in one class, 0 for none; places reserved for all classes; key
--          of its list; when it came by this server's clock, in ms, 0 for unknown, and its number; in how
--          many ms its owner is silent unless it polls before; then its tenant and its program, 8 bytes; and for one
--          that is planned anew its id so far, 8 bytes: the ticket takes the place of that one
-- t, v     the table and its list of candidates
-- plan     what choose.lua knows of it; nil for a request of which own says that it waits already
-- Returns  the answer of reserve.lua; and the index of the candidate, if it was granted one. nil for a request that
--          waits already, if its ticket was lost
--@function enqueue(KEYS, ARGV, t, v, plan)
--@use queue
local call, sub, pack, unpack = redis.call, string.sub, struct.pack, struct.unpack
local age, max, aging, _, _, skip, number, rank, reserved, strict, weight, length, share,
  places, key, came, seq, silence, tenant_at = unpack('<I4I4I4I4I4I2I2BI2BdI4I4I4I4I6I4I4', ARGV[4])
local q, id, is_new = open_queue(KEYS[1], t, sub(KEYS[2], #KEYS[1])), ARGV[1], age == 4294967295
local name = pack('<I2', number) .. sub(ARGV[4], tenant_at, tenant_at + 7)
local lists, classes, flows, ours = q.lists, q.classes, q.flows, sub(name, 1, 6) -- ours: class and tenant
local kin = {} -- flows of the tenant; with too many a new program has one of these
for _, f in ipairs(flows) do
  if f.of == ours then kin[#kin + 1] = f end
end
if not flows[name] and #kin >= 128 then name = kin[unpack('<I4', name, 7) % #kin + 1].name end
local held -- requests that wait, by class and tenant, and by tenant
local inflight = 0 -- requests at all endpoints, 1 at least
-- The name of the owner's key and that of the list end after "own:" and "view:", that of the table with "table".
local owner, view = sub(KEYS[2], #KEYS[1]), string.format('%13s', sub(KEYS[3], #KEYS[1] + 1))
owner = string.format('%16s', owner)

-- runs calls f for each run of candidates in adjacent rows.
local function runs(f)
  local n, many = unpack('<I2I2', v, 13)
  local i = 0
  for run = 19 + 56 * n, 18 + 56 * n + 6 * many, 6 do
    local c, from, count = unpack('<I2I2I2', v, run)
    local cap, _, _, token_cap = unpack('<dddd', v, 43 + 56 * c)
    f(from, count, i, math.min(cap, 4294967295), token_cap)
    i = i + count
  end
end

-- waiting returns the answer to a request that waits.
local function waiting()
  local out = {}
  runs(function(from, count) out[#out + 1] = pack('<I2I2', from, count) end)
  return {-4, table.concat(out), q.stamp .. pack('<I6I4', came, seq), q.grants()}
end

-- tokens returns what the lease counts for with so many cached blocks.
local function tokens(blocks)
  local n = plan.tokens
  if blocks > 0 then
    local upto = unpack('<I4', plan.chain, 11 * plan.count + 4 * blocks - 3)
    n = n - math.floor(plan.prompt_tokens * (upto / plan.length))
  end
  return math.min(math.max(n, 0), 4294967295)
end

-- ending returns the end of the ticket, from its tokens on.
local function ending()
  local has, cold = {}, tokens(0)
  runs(function(from, count, i)
    for c = i, plan.cached and i + count - 1 or -1 do
      local blocks = plan.cached[c]
      local saved = blocks and cold - tokens(blocks)
      if blocks then has[#has + 1] = {c, saved, pack('<I2I4B', from + c - i, saved, blocks)} end
    end
  end)
  table.sort(has, function(a, b) return a[2] > b[2] or a[2] == b[2] and a[1] < b[1] end)
  local out = {pack('<I4', cold)}
  for k = 1, 4 do out[k + 1] = has[k] and has[k][3] or '\255\255\0\0\0\0\0' end
  return table.concat(out)
end

-- find_list returns the list with the request's key, whose caps are those of v from now on.
local function find_list()
  local l
  for _, other in ipairs(lists) do
    if other.key == key then l = other end
  end
  if not l then
    if #lists >= 8 then -- those without tickets go
      for i = #lists, 1, -1 do
        if lists[i].waiting == 0 then lists[-table.remove(lists, i).number] = nil end
      end
    end
    l = {number = 1, key = key, waiting = 0}
    while lists[-l.number] do l.number = l.number + 1 end
    lists[#lists + 1], lists[-l.number] = l, l
  end
  if l.view ~= view then
    local out = {}
    l.in_tokens = 0
    runs(function(from, count, _, cap, token_cap)
      out[#out + 1] = pack('<I2I2I4I6', from, count, cap, token_cap)
      if token_cap > 0 then l.in_tokens = 1 end
    end)
    l.view, l.runs, l.caps, l.token_caps = view, table.concat(out), {}, {}
    l.budgets = plan.budgets
    if l.budgets then q.scanned = 0 end -- others may fit where this one does not
  end
  if l.budgets then l.in_tokens, l.bonus = 2, plan.bonus end
  return l
end

-- over_parts returns how many more requests of each class wait than its part of the places, and of the request's own.
local function over_parts()
  local highest, weights, others, over = rank, weight, 0, {}
  local function each(f)
    for _, c in ipairs(classes) do
      if c.id ~= number and c.waiting > 0 then f(c) end
    end
  end
  each(function(c) highest, weights, others = math.min(highest, c.rank), weights + c.weight, others + 1 end)
  local least = aging > 0 and 0.2 / math.max(others, 1) or 0
  local function part(r, w)
    if strict == 0 then return math.max(least, w / weights) end
    return r == highest and 1 or least
  end
  local all = part(rank, weight)
  each(function(c) all = all + part(c.rank, c.weight) end)
  local shared = math.max(0, length - places) / all
  local function beyond(n, kept, p) return n - kept - math.floor(p * shared + 0.5) end
  each(function(c) over[c] = beyond(c.waiting, c.reserved, part(c.rank, c.weight)) end)
  local c = classes[sub(name, 1, 2)]
  local mine = beyond(c and c.waiting or 0, reserved, part(rank, weight))
  if c then over[c] = mine end
  return over, mine
end

-- youngest returns the flow with the youngest ticket: of the class that is most over its part, of several the lowest,
-- and there of the tenants with the most. It reads no others.
local function youngest(over, within)
  local best, victim, latest, highest = {}, nil, 0, 0
  for _, f in ipairs(flows) do
    if f.waiting > 0 and within(f) then
      local b, d = best[1], 1
      if b then
        d = over[f.class] - over[b.class]
        if d == 0 then d = f.class.rank - b.class.rank end
        if d == 0 then d = held[f.of] - held[b.of] end
      end
      if d > 0 then best = {f} elseif d == 0 then best[#best + 1] = f end
    end
  end
  for _, f in ipairs(best) do
    if q.text(f) ~= '' then
      local last, n = q.since(f.text, #f.text - 84)
      if not victim or last > latest or last == latest and n > highest then victim, latest, highest = f, last, n end
    end
  end
  return victim
end

-- find_victim returns the flow whose youngest ticket makes room for the request, nil for none: of the tenant that holds
-- most of the queue, if the request's own has nothing waiting in any class; else of a class above its part, if the
-- request's own is below or the other one lower; else of its own class, of one with more.
local function find_victim()
  local over, beyond = over_parts()
  local most
  held = {}
  for _, f in ipairs(flows) do
    local tenant = sub(f.of, 3)
    held[f.of], held[tenant] = (held[f.of] or 0) + f.waiting, (held[tenant] or 0) + f.waiting
    if held[tenant] > math.max(1, q.waiting / 2) then most = tenant end
  end
  local all, own = held[sub(ours, 3)] or 0, held[ours] or 0
  local victim = all == 0 and most and youngest(over, function(f)
    return sub(f.of, 3) == most and f.class.waiting > f.class.reserved
  end)
  return victim or youngest(over, function(f)
    local c = f.class
    return c.id ~= number and over[c] > 0 and (beyond < 0 or c.rank > rank) and
      (held[f.of] > 1 or sub(f.of, 3) == sub(ours, 3) or 2 * (all + 1) <= q.waiting)
  end) or youngest(over, function(f) return f.class.id == number and held[f.of] >= own + 2 end)
end

-- evict evicts a request for one more, if there is one to evict.
local function evict()
  local victim = find_victim()
  if not victim then return false end
  local position = #q.text(victim) - 84
  local lost, of = unpack('<c8c16', q.text(victim), position)
  local own = sub(KEYS[2], 1, #KEYS[1] - 1) .. string.match(of, '%S+')
  q.remove(victim, position)
  if plan.budgets then q.scanned = 0 end -- nothing is set aside for it any more
  local known = call('HMGET', own, lost, 'g')
  if known[1] == 'w' .. victim.name then
    call('HDEL', own, lost)
    q.notify(of, own, known[2], lost, 65535, 0, 0, 0, 0)
  end
  return true
end

-- served returns how many of the waiting requests, which have so many tokens together, are granted an endpoint until
-- those before the last one of them have had the given number of tokens.
local function served(up_to, work, requests)
  if up_to < 0 then return 0 end
  return math.min(requests, math.floor(up_to * requests / work) + 1)
end

-- ahead returns what is granted before the request, whose class is c: requests of its class, and their tokens; of
-- others, as far as they wait now; at most by the weights; how many others may be aged; and the tokens of one of those
-- that pass it, 0 if none of them waits.
local function ahead(c)
  local start, virtual, f = q.virtual, c and c.virtual or 0, flows[name]
  if c and (c.waiting > 0 or c.served > start) then start = c.served end
  local own, work, up_to = f and f.waiting or 0, f and f.tokens or 0, virtual
  if f and (f.waiting > 0 or f.served > virtual) then up_to = f.served end
  local programs = {[ours] = f and q.takes_turns(f) and 0 or 1} -- that take turns, by class and tenant
  for _, o in ipairs(flows) do
    if q.takes_turns(o) then programs[o.of] = (programs[o.of] or 0) + 1 end
  end
  up_to = up_to + work * programs[ours]
  for _, o in ipairs(flows) do
    if o.class == c and o ~= f and o.waiting > 0 then
      local n = served((up_to - o.served) / programs[o.of], o.tokens, o.waiting)
      own, work = own + n, work + n * o.tokens / o.waiting
    end
  end
  local others, by_weights, rivals, n, size = 0, strict == 0 and 0 or math.huge, 0, 0, 0
  up_to = start + work / weight
  for _, o in ipairs(classes) do
    if o == c then
    elseif o.waiting == 0 then
      if math.max(0, q.now - o.last) < max then by_weights = math.huge end
    else
      rivals = rivals + 1
      if strict == 0 then
        local more = (up_to - o.served) * o.weight
        others = others + served(more, o.tokens, o.waiting)
        by_weights = by_weights + math.max(0, more * o.waiting / o.tokens + 1)
      elseif o.rank < rank then
        others = others + o.waiting
      end
      if strict == 0 or o.rank < rank then n, size = n + o.waiting, size + o.tokens end
    end
  end
  return own, work, others, by_weights, rivals, n > 0 and size / n or 0
end

-- interval returns the mean time between two grants in ms, and how many of the next ones may come at any moment.
local function interval()
  local least, passed = math.max(inflight, 8), math.max(0, q.now - q.last) * q.places * q.running
  if q.made < least then return (q.time + passed) / least / inflight, least - q.made end
  local time = (q.time + passed) - (q.gap + passed)
  if q.made >= 2 * least then
    time = time - q.longest
    time = time + math.min(q.longest, least * time / (q.made - 1))
  end
  return time / q.made / inflight, 0
end

-- part returns the part of the grants that a class or a flow is likely to get, and by how many it is known. While so
-- many were made none of those came that pass it; others always get rest.
local function part(of, grants, rest)
  if of.chances < 32 then return 1, 1 end
  return math.max(math.min(1, (of.granted + 1) / of.chances), 1 - 7 / math.max(grants, 1) - rest), of.chances
end

-- parts returns the part of the grants that the class gets, where one is made in so many ms, by how many it is known,
-- and those of the flow in its class.
local function parts(c, f, mean)
  local of_class, known_by, quiet, rest = 1, 1, 2 ^ 31, 0
  for _, o in ipairs(classes) do
    if o == c then
    elseif strict == 0 or o.rank < rank then
      quiet = math.min(quiet, math.max(0, q.now - o.last))
    elseif o.waiting > 0 and aging > 0 then
      rest = 0.1
    end
  end
  if c and c.waiting > 0 then of_class, known_by = part(c, quiet / mean, rest) end
  if not f or f.waiting == 0 then return of_class, known_by, 1, 1 end
  quiet = 2 ^ 31
  for _, o in ipairs(flows) do
    if o ~= f and o.class == c then quiet = math.min(quiet, math.max(0, q.now - o.last)) end
  end
  return of_class, known_by, part(f, quiet / (mean / of_class), 0)
end

-- within returns whether it is likely to be the request's turn within so many grants, of which some are due: see
-- expected.go.
local function within(turns, of, known_by, passed, limit, due)
  local left = (turns - due) * of
  if left <= 0 then return true end
  local deviation = math.sqrt(limit * (1 + 2 * (1 - of) * (1 + limit / known_by)))
  local x = of * limit / deviation - 1.5 - 0.85 * passed
  return left <= deviation * (x + math.sqrt(x * x + 0.7)) / 2
end

-- outlook returns after how long it is likely to be the request's turn, in ms, 0 as long as nothing shows that it would
-- have to wait; and whether that is likely to be too late.
local function outlook(is_open)
  local mean, due = interval()
  if is_open or q.waiting == 0 or mean <= 0 or unpack('<I2', v, 15) == 0 then return 0, false end
  local c, f, limit, by_aging = classes[sub(name, 1, 2)], flows[name], max / mean, math.huge
  local before, work, others, by_weights, rivals, size = ahead(c)
  local of_class, known_by, of_flow, flow_known_by = parts(c, f, mean)
  local known, own = before + 1, before + 1
  if f and f.waiting > 0 then own = math.max(own, (f.waiting + 1) / of_flow) end
  of_flow = known / own
  if known_by < 32 then known_by = flow_known_by end
  by_weights = own + by_weights
  if aging > 0 and size > 0 then
    work = work * own / known
    if c and c.waiting > 0 then work = math.max(0, work - c.due) end
    by_aging = aging / mean + own + 1 + (10 * rivals - 1) * work / size
  end
  local usual, of = (own + others) / of_class, of_class * of_flow
  local in_time = within(usual, of, known_by, 1 - of, limit, due) or
    within(by_weights, of_flow, flow_known_by, 1 - known / by_weights, limit, due) or
    within(by_aging, of_flow, flow_known_by, 1 - known / by_aging, limit, due)
  return math.max(0, math.min(usual, by_weights, by_aging) - due) * mean, not in_time
end

-- admit returns nothing if one more request may wait: then in a full queue one was evicted for it.
local function admit(is_open)
  local others, here = places - reserved, 0 -- others: places kept free for other classes
  local ms, hopeless = outlook(is_open)
  if hopeless then return -6, math.floor(ms) end
  for _, c in ipairs(classes) do
    if c.id ~= number then others = others - math.min(c.reserved, c.waiting) end
  end
  for _, f in ipairs(kin) do here = here + f.waiting end
  if (share == 0 or here < share) and (q.waiting < length - math.max(0, others) or evict()) then return nil end
  return -5, ms == 0 and plan.expected and plan.expected(q) or math.floor(ms)
end

-- forget_flows removes the flows without tickets that are like new ones, and if there are too many others, the half of
-- these that was served least beyond what a new one begins with; but not that of the request.
local function forget_flows()
  local MOST, beyond, limit = 64, {}, 0
  if #flows < MOST then return end
  for _, f in ipairs(flows) do
    local more = f.served - f.class.virtual
    if f.waiting == 0 and more > 0 and f.name ~= name then beyond[#beyond + 1] = more end
  end
  if #beyond > MOST then
    table.sort(beyond)
    limit = beyond[math.floor(#beyond / 2) + 1]
  end
  local count, kept = #flows, 0
  for i = 1, count do
    local f = flows[i]
    if f.waiting == 0 and f.served - f.class.virtual <= limit and f.name ~= name then
      if f.dirty then call('HDEL', q.tickets, f.name) end
      flows[f.name] = nil
    else
      kept = kept + 1
      flows[kept] = f
    end
  end
  for i = kept + 1, count do flows[i] = nil end
end

-- flow returns the request's flow.
local function flow()
  local c = classes[sub(name, 1, 2)]
  if not c then
    c = {id = number, waiting = 0, served = 0, virtual = 0, due = 0, odd = 0, chances = 0, granted = 0, tokens = 0,
      last = 0}
    classes[#classes + 1], classes[sub(name, 1, 2)] = c, c
  end
  c.rank, c.weight, c.reserved = rank, weight, reserved
  if c.waiting == 0 then c.served, c.due = math.max(c.served, q.virtual), 0 end
  local f = flows[name]
  if not f or f.waiting == 0 then forget_flows() end
  if not f then
    local sum, n = 0, 0 -- of the others of the tenant
    for _, o in ipairs(flows) do
      if o.of == ours and q.takes_turns(o) then sum, n = sum + o.served, n + 1 end
    end
    f = {name = name, of = ours, class = c, served = sum / math.max(n, 1), tokens = 0, chances = 0, granted = 0,
      last = 0, waiting = 0, ages = 0, text = ''}
    flows[#flows + 1], flows[name] = f, f
  end
  if f.waiting == 0 then f.served = math.max(f.served, c.virtual) end
  return f
end

-- add adds the request's ticket behind those that came before it.
local function add(l, is_open)
  q.read_clock()
  if not q.waits_for('runs') then
    q.fade(math.max(0, 1 - math.max(0, q.now - q.last) / 60000))
    q.last, q.running = q.now, 1
  end
  q.places = inflight
  q.strict, q.seq = strict, (q.seq + 1) % 2 ^ 32
  local f, by_age = flow(), is_new and q.now or q.now - age
  -- The age is off by as much as commands took. With another clock, of a server that took over, it is better.
  if came == 0 or math.abs(came - by_age) > 10000 then came, seq = by_age, q.seq end
  came = math.min(came, q.now)
  f.last, f.class.last = math.max(f.last, came), math.max(f.class.last, came)
  local s = q.text(f)
  local at = #s + 1
  while at > 1 do
    local last, n = q.since(s, at - 85)
    if last < came or last == came and n < seq then break end
    at = at - 85
  end
  q.set(f, sub(s, 1, at - 1) .. id .. owner .. pack('<I6I4I4I4I4', came, seq, max, aging, plan.patience or 0) ..
    pack('<I2BI2I2', plan.wanted, l.number, skip, 0) .. ending() .. sub(s, at))
  q.uncount(f, -1, -math.max(math.floor(tokens(0)), 1))
  l.waiting = l.waiting + 1
  if is_open or not q.waits_for('runs') then q.running = 0 end
  q.skip = math.max(q.skip, skip)
  if plan.wanted ~= 65535 then q.patient = q.patient + 1 end
end

if not plan then return q.position(sub(call('HGET', KEYS[2], id), 2), id, owner) and waiting() end
q.show_life(silence)
if not plan.full and q.patient >= 64 then plan.wanted = 65535 end -- it takes what is open
local l = find_list()
for at = 17, plan.budgets and 0 or #t - 8, 9 do inflight = inflight + unpack('<I3', t, at) end
inflight = math.max(inflight, 1)
if #lists > 255 or #classes > 254 or #flows > 65000 then return {-5, 0} end
if is_new and plan.full then
  local code, ms = admit(false)
  if code then return {code, ms} end
end
local old = sub(ARGV[4], tenant_at + 8)
local entry = old ~= '' and call('HGET', KEYS[2], old)
if entry and #entry > 8 then
  call('HDEL', KEYS[2], old)
  q.leave(sub(entry, 2), old, owner)
end
add(l, not plan.full)
call('HSET', KEYS[2], id, 'w' .. name)
if not plan.full then
  q.dispatch(nil, id, KEYS[2])
  if is_new and not q.granted then
    q.leave(name, id, owner)
    local is_open = false
    runs(function(from, count, _, cap, token_cap)
      for row = from, plan.budgets and 0 or from + count - 1 do
        is_open = is_open or q.fits(row, cap == 4294967295 and 0 or cap, token_cap)
      end
    end)
    local code, ms = admit(is_open)
    if code then
      call('HDEL', KEYS[2], id)
      q.save() -- others may have been granted something
      return {code, ms, q.grants()}
    end
    add(find_list(), is_open)
  end
end
q.save()
local g, index = q.granted, nil
if not g then return waiting() end
runs(function(from, count, i)
  if g.row >= from and g.row < from + count then index = index or i + g.row - from end
end)
local answer, grants = pack('<I2I4I8', index, g.requests, g.tokens), q.grants()
if plan.budgets then
  answer = answer .. plan.known_left(KEYS[4], v, g.row)
elseif KEYS[4] then
  answer = answer .. pack('<BI4', g.blocks, g.added)
end
return grants and {answer, grants} or answer, index
