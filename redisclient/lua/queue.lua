-- The queue of a scope: the text of the function open_queue(tablekey, data) in scripts that change loads. data is the
-- table, or its beginning. The rules are those of package lb/queue, which explains them; the names are the same.
--
-- The last byte of the table's head is 1 while requests wait, 2 if some may wait for tokens: then there are endpoints
-- with a cap in tokens. They are in the following keys, whose names begin like
-- that of the table. Commands do not name them, because few need them.
--   queue    string: a head of 68 bytes (see save), the classes, the lists of endpoints, the flows. It has another
--            stamp after tickets were lost. A list with budgets has them as lists of candidates do (candidates.lua)
--   tickets  hash: flow -> its tickets in the order in which they came, 85 bytes each:
--            id 8; name of the owner 16, filled with blanks; since <I6; number <I4; max <I4; aging <I4; patience <I4;
--            row that it wants <I2, 65535 for none; list B; skip <I2; how often it was passed <I2; tokens <I4;
--            4 times, the best first: row <I2, 65535 for none; tokens saved there <I4; its cached blocks B
--   own      in an owner's hash: ticket -> "w" and its flow; "g" -> what its owner has not fetched yet: a stamp of 8
--            bytes, then 25 bytes for each: id 8; row <I2, 65535 if the ticket was evicted; requests <I4 and tokens <I6
--            there; cached blocks B; tokens of the lease <I4. It may lack some, which a heartbeat finds
-- A script that grants tells its caller, in what is called grants where its answer is described: for each ticket that
-- was granted a row, or evicted, the name of its owner as in tickets, then the 25 bytes.
-- A flow is named by class <I2 and tenant 8. Times are in ms of this server's clock. A ticket that is granted a row is
-- a lease at once: its entry in own becomes that. A ticket without its entry in own is void.
local call, sub, pack, unpack, find = redis.call, string.sub, struct.pack, struct.unpack, string.find
local base = sub(tablekey, 1, -6)
local headkey, tickets, own = base .. 'queue', base .. 'tickets', base .. 'own:'
local SIZE, NO_ROW, KEEP, MOST = 85, 65535, 60000, 32 -- MOST: grants in one step, so that it does not take long
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local head, epoch, whole = call('GETRANGE', headkey, 0, -1), sub(data, 1, 8), nil -- whole: the table, once it was read
local classes, lists, flows, loads, grants = {}, {}, {}, {}, {} -- flows also by name, lists by minus their number
local q = {now = now, flows = flows, classes = classes, waiting = 0, seq = 0, strict = 0, count = 0, last = 0,
  interval = 0, virtual = 0, scanned = 0, aging = 0, skip = 0, patient = 0}

if sub(head, 1, 8) == epoch then
  local nc, nl, nf, at
  q.stamp, q.waiting, q.seq, q.strict, q.count, q.last, q.interval, q.virtual, q.scanned, q.aging, q.skip, q.patient,
    nc, nl, nf, at = unpack('<c8I4I4BBI6ddI6I4I2I4BBI2', head, 9)
  for i = 1, nc do
    local c = {}
    c.id, c.rank, c.reserved, c.weight, c.served, c.virtual, c.waiting, at = unpack('<I2BI2dddI4', head, at)
    classes[i], classes[pack('<I2', c.id)] = c, c
  end
  for i = 1, nl do
    local l, runs = {caps = {}, token_caps = {}}, nil
    l.number, l.key, l.waiting, l.in_tokens, l.view, runs, at = unpack('<BI4I4Bc13I2', head, at)
    l.runs, at = sub(head, at, at + 14 * runs - 1), at + 14 * runs
    if l.in_tokens == 2 then
      local length
      l.bonus, length, at = unpack('<dI4', head, at)
      l.budgets, at = sub(head, at, at + length - 1), at + length
    end
    lists[i], lists[-l.number] = l, l
  end
  for i = 1, nf do
    local f = {}
    f.name, f.served, f.waiting, f.since, at = unpack('<c10dI4I6', head, at)
    f.class = classes[sub(f.name, 1, 2)]
    flows[i], flows[f.name] = f, f
  end
elseif head ~= '' then
  call('UNLINK', headkey, tickets)
end

-- uncount takes n tickets that wait out of the counts of a flow.
local function uncount(f, n)
  f.waiting, f.class.waiting, q.waiting = f.waiting - n, f.class.waiting - n, q.waiting - n
end

-- recount counts the tickets that there are.
local function recount()
  q.stamp, q.patient = nil, 0
  for _, l in ipairs(lists) do l.waiting = 0 end
  for _, f in ipairs(flows) do
    f.text = f.text or call('HGET', tickets, f.name) or ''
    uncount(f, f.waiting - #f.text / SIZE)
    for at = 1, #f.text, SIZE do
      local wants, number = unpack('<I2B', f.text, at + 46)
      local l = lists[-number]
      if l then l.waiting = l.waiting + 1 end
      if wants ~= NO_ROW then q.patient = q.patient + 1 end
    end
  end
end

-- text returns the tickets of a flow. If Redis has lost some, they are not counted any more.
local function text(f)
  if not f.text then
    f.text = call('HGET', tickets, f.name) or ''
    if f.waiting ~= #f.text / SIZE then recount() end
  end
  return f.text
end

-- since returns when the ticket at a position came, and its number: tickets are in that order.
local function since(s, at) return unpack('<I6I4', s, at + 24) end

-- set changes the tickets of a flow.
local function set(f, s)
  f.text, f.dirty, f.since = s, true, s ~= '' and since(s, 1) or 0
end

-- load returns requests and tokens in flight at a row.
local function load(row)
  local l = loads[row]
  if not l then
    local raw = whole and sub(whole, 17 + 9 * row, 25 + 9 * row) or
      call('GETRANGE', tablekey, 16 + 9 * row, 24 + 9 * row)
    l = {0, 0}
    if #raw == 9 then l[1], l[2] = unpack('<I3I6', raw) end
    loads[row] = l
  end
  return l
end

-- fits returns whether a row has room below the caps, 0 for none.
local function fits(row, cap, token_cap)
  local n = load(row)
  return (cap == 0 or n[1] < cap) and (token_cap == 0 or n[2] < token_cap)
end

-- open returns whether a row is below its caps in a list.
local function open(l, row)
  if l.budgets then return false end -- that depends on the request
  local cap = l.caps[row]
  if cap == nil then
    cap = false
    for at = 1, #l.runs, 14 do
      local first, count, limit, token_limit = unpack('<I2I2I4I6', l.runs, at)
      if row >= first and row < first + count then
        cap, l.token_caps[row] = limit, token_limit
        break
      end
    end
    l.caps[row] = cap
  end
  return cap and fits(row, cap, l.token_caps[row])
end

-- warm returns the endpoints that have some of the ticket's prompt: row, saved tokens and cached blocks of each; nil
-- for none.
local function warm(s, at)
  if sub(s, at + 57, at + 58) == '\255\255' then return nil end
  return {unpack('<I2I4BI2I4BI2I4BI2I4B', s, at + 57)}
end

-- saved returns how many tokens need not be computed at a row, and how many blocks of the prompt are there.
local function saved(w, row)
  for i = 1, w and 12 or 0, 3 do
    if w[i] == row then return w[i + 1], w[i + 2] end
  end
  return 0, 0
end

-- eligible returns whether the ticket at a position may be granted the row.
local function eligible(s, at, row)
  if q.turns then return q.turns.takes(s, at) end
  local came, max, patience, wants, number = unpack('<I6xxxxI4xxxxI4I2B', s, at + 24)
  local waited, l = math.max(0, now - came), lists[-number]
  if waited > max or not l or not open(l, row) then return false end
  local r1, v1, _, r2, v2, _, r3, v3, _, r4, v4 = unpack('<I2I4BI2I4BI2I4BI2I4', s, at + 57)
  if r1 == NO_ROW then return true end
  local here = row == r1 and v1 or row == r2 and v2 or row == r3 and v3 or row == r4 and v4 or 0
  if wants ~= NO_ROW and wants ~= row and waited < patience then
    local there = wants == r1 and v1 or wants == r2 and v2 or wants == r3 and v3 or wants == r4 and v4 or 0
    if there > here then return false end
  end
  return not (r1 ~= row and v1 > here and open(l, r1) or
    r2 ~= NO_ROW and (r2 ~= row and v2 > here and open(l, r2) or
    r3 ~= NO_ROW and (r3 ~= row and v3 > here and open(l, r3) or
    r4 ~= NO_ROW and r4 ~= row and v4 > here and open(l, r4))))
end

-- worth returns what it is worth to serve the ticket at the row rather than elsewhere, in tokens.
local function worth(s, at, row)
  local w, best = warm(s, at), 0
  for i = 1, w and 12 or 0, 3 do
    if w[i] ~= row and w[i] ~= NO_ROW then best = math.max(best, w[i + 1]) end
  end
  return 2 * saved(w, row) - best
end

-- first returns the position of the first ticket of a flow that may be granted the row, and when it came. With aged it
-- must have waited for its aging.
local function first(f, row, aged)
  local s = text(f)
  for at = 1, #s, SIZE do
    local came, number = since(s, at)
    if aged and now - came < q.aging then return nil end
    local aging = aged and unpack('<I4', s, at + 38)
    if not (aged and (aging == 0 or now - came < aging)) and eligible(s, at, row) then return at, came, number end
  end
end

-- earliest returns the flow with the ticket that came first among those that first returns. The flows are in the order
-- of key: with a worse one than that of a flow that has such a ticket they do not matter.
local function earliest(of, key, row, aged)
  table.sort(of, function(a, b) return a[key] < b[key] end)
  local best, position, came, number
  for _, f in ipairs(of) do
    if best and f[key] > (aged and came or best[key]) then break end
    local at, c, n = first(f, row, aged)
    if at and (not best or c < came or c == came and n < number) then best, position, came, number = f, at, c, n end
  end
  return best, position
end

-- turn returns the ticket whose turn it is at the row: its flow, its position, and the positions of those it passes.
local function turn(row)
  local of = {}
  for _, f in ipairs(flows) do
    if q.aging > 0 and f.waiting > 0 and now - f.since >= q.aging then of[#of + 1] = f end
  end
  local f, at = earliest(of, 'since', row, true)
  if f then return f, at, {} end
  local order = {}
  for _, c in ipairs(classes) do
    if c.waiting > 0 then order[#order + 1] = c end
  end
  table.sort(order, function(a, b)
    if q.strict == 0 and a.served ~= b.served then return a.served < b.served end
    return a.rank < b.rank
  end)
  for i = 1, #order do
    of = {}
    for _, other in ipairs(flows) do
      if other.class == order[i] and other.waiting > 0 then of[#of + 1] = other end
    end
    f, at = earliest(of, 'served', row)
    if f then break end
  end
  if not f then return nil end
  local s, best, most, before, passes = text(f), nil, 0, {}, {}
  for p = at, #s, SIZE do
    if p == at or eligible(s, p, row) then
      local skip, passed = unpack('<I2I2', s, p + 49)
      local w = worth(s, p, row)
      if not best or w > most and #before <= skip then best, most = p, w end
      before[#before + 1] = p
      if passed >= 3 * skip or #before > math.min(q.skip, 1000) then break end
    end
  end
  for i = 1, #before do
    if before[i] < best then passes[#passes + 1] = before[i] end
  end
  return f, best, passes
end

-- remove removes the ticket at a position. Those at the positions of passes were passed by it.
local function remove(f, at, passes)
  local s, out, from = text(f), {}, 1
  for _, p in ipairs(passes or {}) do
    out[#out + 1] = sub(s, from, p + 50)
    out[#out + 1] = pack('<I2', math.min(unpack('<I2', s, p + 51) + 1, 65535))
    from = p + 53
  end
  out[#out + 1] = sub(s, from, at - 1)
  local wants, number = unpack('<I2B', s, at + 46)
  local l = lists[-number]
  if l then l.waiting = l.waiting - 1 end
  if wants ~= NO_ROW then q.patient = q.patient - 1 end
  out[#out + 1] = sub(s, at + SIZE)
  set(f, table.concat(out))
  uncount(f, 1)
end

-- notify notes what has become of a ticket, for its owner to fetch or to be told.
local function notify(owner, key, news, ...)
  local entry = pack('<c8I2I4I6BI4', ...)
  if not news or #news > 40000 then news = pack('>I4I4', tonumber(t[1]), tonumber(t[2])) end
  call('HSET', key, 'g', news .. entry)
  grants[#grants + 1] = owner .. entry
end

-- grants returns the grants of this step, nil for none.
function q.grants() return #grants > 0 and table.concat(grants) or nil end

-- grant grants the row to the ticket at a position. It returns false if the ticket was void.
local function grant(f, at, passes, row, own_id, own_key)
  local s = text(f)
  local id, owner = unpack('<c8c16', s, at)
  local key, tokens, l = own .. string.match(owner, '%S+'), unpack('<I4', s, at + 53), load(row)
  local fewer, blocks = saved(warm(s, at), row)
  tokens = tokens - fewer
  remove(f, at, passes)
  local o = call('HMGET', key, 'b', id, 'g')
  if o[1] ~= epoch or o[2] ~= 'w' .. f.name then return false end
  local c, served = f.class, math.max(tokens, 1)
  q.virtual, c.virtual = c.served, f.served
  c.served, f.served = c.served + served / c.weight, f.served + served
  local interval = math.max(0, now - q.last)
  if q.count >= 8 then interval = math.min(interval, math.max(8 * q.interval, 100)) end
  q.count = math.min(q.count + 1, 32)
  q.interval, q.last = q.interval + (interval - q.interval) / q.count, now
  l[1], l[2] = l[1] + 1, l[2] + tokens
  call('SETRANGE', tablekey, 16 + 9 * row, pack('<I3I6', l[1], l[2]))
  call('HSET', key, id, pack('<I2I4BB', row, tokens, 0, blocks))
  if id == own_id and key == own_key then
    q.granted = {row = row, requests = l[1], tokens = l[2], blocks = blocks, added = tokens}
  else
    notify(owner, key, o[3], id, row, l[1], l[2], blocks, tokens)
  end
  return true
end

-- warm_rows returns the rows that have a prompt of somebody who waits.
local function warm_rows()
  local rows = {}
  for _, f in ipairs(flows) do
    local s = f.waiting > 0 and text(f) or ''
    for at = 1, #s, SIZE do
      local w = warm(s, at)
      for i = 1, w and 12 or 0, 3 do rows[w[i]] = true end
    end
  end
  return rows
end

-- kind returns the lists with somebody who waits in which a row is open; "" for a row that has a prompt of one of
-- these, which has no kind. If nobody can be granted one row of a kind, nobody can be granted any other of it.
local function kind(row)
  q.warm = q.warm or warm_rows()
  local open_in = {}
  for _, l in ipairs(q.warm[row] and {} or lists) do
    if l.waiting > 0 and open(l, row) then open_in[#open_in + 1] = l.number end
  end
  return table.concat(open_in, ' ')
end

-- has_budgets returns whether somebody waits for endpoints with budgets.
local function has_budgets()
  for _, l in ipairs(lists) do
    if l.budgets and l.waiting > 0 then return true end
  end
end

-- dispatch_budgets grants what endpoints with budgets can take, by the rules of turns.lua. It returns to how many.
local function dispatch_budgets(own_id, own_key)
  local turns, granted = open_turns(), 0
  q.turns = turns
  while q.waiting > 0 and granted < MOST do
    turns.look()
    local f, at, passes = turn(NO_ROW)
    if not f then break end
    local row = turns.choose(text(f), at)
    if grant(f, at, passes, row, own_id, own_key) then
      turns.charge()
      granted = granted + 1
    end
  end
  q.turns = nil
  turns.save()
  return granted
end

-- asides returns what is set aside for those that wait: tokens, and the name of the target.
function q.asides() return has_budgets() and open_turns().look() or {} end

-- dispatch grants the open rows to those whose turn it is: the given ones, or all. A ticket of the caller that is
-- granted a row is in q.granted then; other owners are notified.
function q.dispatch(rows, own_id, own_key)
  local ends, granted = {}, 0 -- ends: row, caps and list of the endpoints that may be open
  -- exhausted: rows that nobody can be granted now; cold: kinds of such rows; failed: the latest one
  local exhausted, cold, failed = {}, {}, nil
  q.warm = nil
  if has_budgets() then granted = dispatch_budgets(own_id, own_key) end
  if not rows then
    q.scanned = now
    whole = whole or #data > 16 and data or call('GETRANGE', tablekey, 0, -1)
  end
  for _, l in ipairs(lists) do
    local function add(row, cap, token_cap)
      if fits(row, cap, token_cap) then
        ends[#ends + 1], ends[#ends + 2], ends[#ends + 3], ends[#ends + 4] = row, cap, token_cap, l
      end
    end
    for at = 1, l.waiting > 0 and not l.budgets and #l.runs or 0, 14 do
      local from, count, cap, token_cap = unpack('<I2I2I4I6', l.runs, at)
      if not rows then
        for row = from, from + count - 1 do add(row, cap, token_cap) end
      else
        for _, row in ipairs(rows) do
          if row >= from and row < from + count then add(row, cap, token_cap) end
        end
      end
    end
  end
  if granted >= MOST then q.scanned = 0 end -- the next poll of any owner goes on
  while q.waiting > 0 do
    local row, least
    for i = 1, #ends, 4 do
      local e, cap, token_cap = ends[i], ends[i + 1], ends[i + 2]
      local is_open = not exhausted[e] and ends[i + 3].waiting > 0 and fits(e, cap, token_cap)
      if is_open and failed then
        local k = kind(failed)
        if k ~= '' then cold[k] = true end
        failed = nil
      end
      if is_open and next(cold) and cold[kind(e)] then is_open, exhausted[e] = false, true end
      if is_open then
        local used = load(e)[1] / (cap == 0 and 4294967295 or cap)
        if token_cap > 0 then used = math.max(used, load(e)[2] / token_cap) end
        if not least or used < least then row, least = e, used end
      end
    end
    if not row then break end
    if granted >= MOST then
      q.scanned = 0 -- the next poll of any owner goes on
      break
    end
    local f, at, passes = turn(row)
    if f and grant(f, at, passes, row, own_id, own_key) then
      exhausted, cold, failed, granted = {}, {}, nil, granted + 1 -- some may have left a row to another, now full
    elseif not f then
      exhausted[row], failed = true, row
    end
  end
end

-- position returns where a ticket is in its flow, nil if it is not there.
function q.position(name, id, owner)
  local f = flows[name]
  local s = f and text(f)
  local at = s and find(s, id .. owner, 1, true)
  while at and at % SIZE ~= 1 do at = find(s, id .. owner, at + 1, true) end
  return at
end

-- leave removes a ticket, whose entry in own is the caller's to change.
function q.leave(name, id, owner)
  local at = q.position(name, id, owner)
  if at then remove(flows[name], at) end
end

-- leave_all removes all tickets of an owner from a flow.
function q.leave_all(name, owner)
  local f = flows[name]
  local s = f and text(f) or ''
  for at = #s - SIZE + 1, 1, -SIZE do
    if sub(s, at + 8, at + 23) == owner then remove(f, at) end
  end
end

q.text, q.since, q.set, q.remove, q.notify, q.lists, q.tickets = text, since, set, remove, notify, lists, tickets

-- save writes the queue. An empty one is kept for a while, because the pace at which requests were granted is in it.
function q.save()
  local out, some, mark = {}, q.waiting > 0, '\1'
  local function put(...) out[#out + 1] = pack(...) end
  if some then
    for _, f in ipairs(flows) do
      if f.dirty and f.text ~= '' then call('HSET', tickets, f.name, f.text) end
      if f.dirty and f.text == '' then call('HDEL', tickets, f.name) end
    end
    call('PEXPIRE', tickets, KEEP)
  else
    call('UNLINK', tickets)
    classes, lists, flows, q.virtual, q.aging, q.skip, q.patient = {}, {}, {}, 0, 0, 0, 0
  end
  q.stamp = q.stamp or pack('>I4I4', tonumber(t[1]), tonumber(t[2]))
  put('<c8c8I4I4BBI6ddI6I4I2I4BBI2', epoch, q.stamp, q.waiting, q.seq, q.strict, q.count, q.last, q.interval, q.virtual,
    q.scanned, q.aging, q.skip, q.patient, #classes, #lists, #flows)
  for _, c in ipairs(classes) do
    put('<I2BI2dddI4', c.id, c.rank, c.reserved, c.weight, c.served, c.virtual, c.waiting)
  end
  for _, l in ipairs(lists) do
    put('<BI4I4Bc13I2', l.number, l.key, l.waiting, l.in_tokens, l.view, #l.runs / 14)
    if l.in_tokens > 0 then mark = '\2' end
    out[#out + 1] = l.runs
    if l.in_tokens == 2 then
      put('<dI4', l.bonus, #l.budgets)
      out[#out + 1] = l.budgets
    end
  end
  for _, f in ipairs(flows) do put('<c10dI4I6', f.name, f.served, f.waiting, f.since) end
  call('SETRANGE', tablekey, 15, some and mark or '\0')
  call('SET', headkey, table.concat(out), 'PX', KEEP)
end
return q
