-- What is granted to those whose turn it is: the last part of the function open_queue(), which follows that of
-- queue_turn.lua.

-- grants returns the grants of this step, nil for none.
function q.grants() return #grants > 0 and table.concat(grants) or nil end

-- note notes a grant to a flow, whose ticket was removed, for the pace and the shares.
local function note(flow)
  q.made, q.longest, q.gap = q.made + 1, math.max(q.longest, q.gap), 0
  q.fade(math.min(1, math.max(60000 * q.places / q.time, 4 * math.max(q.places, 8) / q.made)))
  local function share(of, to_it)
    if of.waiting == 0 and not to_it then return end
    of.chances, of.granted = of.chances + 1, of.granted + (to_it and 1 or 0)
    if of.chances > 400 then of.chances, of.granted = 400, of.granted * (400 / of.chances) end
  end
  for _, c in ipairs(classes) do share(c, c == flow.class) end
  for _, f in ipairs(flows) do
    if f.class == flow.class then share(f, f == flow) end
  end
end

-- grant grants the row to the ticket at a position, which turn has returned. It returns false if the ticket was void.
local function grant(row, own_id, own_key, f, at, passes, out_of_turn)
  local s = text(f)
  local id, owner = unpack('<c8c16', s, at)
  local key, tokens, l = own .. string.match(owner, '%S+'), unpack('<I4', s, at + 53), load(row)
  local fewer, blocks = saved(warm(s, at), row)
  tokens = tokens - fewer
  local o = call('HMGET', key, 'b', id, 'g')
  if o[1] ~= epoch or o[2] ~= 'w' .. f.name then
    remove(f, at, passes)
    return false
  end
  local c, served = f.class, math.max(tokens, 1)
  if out_of_turn then
    c.due = c.due - served
  else
    owe(c, served)
    c.due = math.max(math.min(c.due, -served), c.due - served)
    q.virtual, c.served = c.served, c.served + served / c.weight
  end
  c.odd = c.odd + ((out_of_turn and 1 or 0) - c.odd) / 16
  c.virtual, f.served = f.served, f.served + served
  remove(f, at, passes)
  if q.running == 1 then note(f) end
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

local function budget_turns() return open_turns() end

-- has_budgets returns whether somebody waits for endpoints with budgets.
local function has_budgets()
  for _, l in ipairs(lists) do
    if l.budgets and l.waiting > 0 then return true end
  end
end

-- dispatch_budgets grants what endpoints with budgets can take, by the rules of turns.lua. It returns how many tickets
-- have had their turn: void ones, too.
local function dispatch_budgets(own_id, own_key)
  local turns, served = budget_turns(), 0
  q.turns = turns
  while q.waiting > 0 and served < MOST do
    turns.look()
    local f, at, passes, out_of_turn = turn(NO_ROW)
    if not f then break end
    local row = turns.choose(text(f), at)
    served = served + 1
    if grant(row, own_id, own_key, f, at, passes, out_of_turn) then turns.charge() end
  end
  q.turns = nil
  turns.save()
  return served
end

-- asides returns what is set aside for those that wait: tokens, and the name of the target.
function q.asides() return has_budgets() and budget_turns().look() or {} end

-- revoke takes back what an owner was granted, and adds to refunds what that was charged. entries are as in untold,
-- MOST at most; list is what makes a list of a table. It returns how many leases these were.
local function revoke(name, entries, list, refunds)
  local key, ids, gone, out = own .. name, {}, {}, {}
  for at = 1, #entries, 25 do ids[#ids + 1] = sub(entries, at, at + 7) end
  local known = call('HMGET', key, 'b', 'g', list(ids))
  for i, id in ipairs(known[1] == epoch and ids or {}) do
    local row, lease = unpack('<I2', entries, 25 * i - 16), known[i + 2]
    if lease and #lease == 8 and unpack('<I2', lease) == row then
      local l, tokens = load(row), unpack('<I4', lease, 3)
      l[1], l[2] = math.max(0, l[1] - 1), math.max(0, l[2] - tokens)
      call('SETRANGE', tablekey, 16 + 9 * row, pack('<I3I6', l[1], l[2]))
      known[i + 2] = false
      for k = i + 1, #ids do -- an id is there twice if what was known of it was lost in between
        if ids[k] == id then known[k + 2] = false end
      end
      gone[#gone + 1], out[#out + 1] = id, id .. pack('<I2', LOST) .. string.rep('\0', 15)
      refunds[#refunds + 1] = {row, tokens}
    end
  end
  if #gone > 0 then
    local news = known[2] and #known[2] < 40000 and known[2] or pack('>I4I4', tonumber(t[1]), tonumber(t[2]))
    call('HDEL', key, list(gone))
    call('HSET', key, 'g', news .. table.concat(out))
  end
  return #gone
end

-- take_back takes back what silent owners were granted and cannot know of. They reserve again in their old places.
-- list is what makes a list of a table. It returns whether there is more.
function q.take_back(list)
  local left, refunds, more = MOST, {}, false
  for _, name in ipairs(call('HKEYS', untold)) do
    if left > 0 and is_silent(string.format('%16s', name)) then
      local entries = call('HGET', untold, name)
      local some = sub(entries, 1, 25 * left)
      left = left - revoke(name, some, list, refunds)
      if some == entries then
        call('HDEL', untold, name)
      else
        call('HSET', untold, name, sub(entries, #some + 1))
        left, more = 0, true
      end
    end
  end
  for _, l in ipairs(#refunds > 0 and lists or {}) do
    if l.budgets then
      local turns = budget_turns()
      for _, r in ipairs(refunds) do turns.refund(r[1], r[2]) end
      turns.save()
      break
    end
  end
  return more
end

-- dispatch grants the open rows to those whose turn it is: the given ones, or all. A ticket of the caller that is
-- granted a row is in q.granted then; other owners are notified.
function q.dispatch(rows, own_id, own_key)
  local ends, served = {}, 0 -- ends: row, caps and list of the endpoints that may be open
  -- exhausted: rows that nobody can be granted now; cold: kinds of such rows; failed: the latest one
  local exhausted, cold, failed = {}, {}, nil
  q.warm = nil
  q.read_clock()
  if q.running == 0 and q.waiting > 0 then rows = nil end -- whether the clock runs from now on depends on all
  if has_budgets() then served = dispatch_budgets(own_id, own_key) end
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
  local left = served >= MOST -- something is open
  if left then q.scanned = 0 end -- the next poll of any owner goes on
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
    if served >= MOST then
      q.scanned, left = 0, true
      break
    end
    local f, at, passes, out_of_turn = turn(row)
    if not f then
      exhausted[row], failed = true, row
    else
      served = served + 1
      -- Some may have left a row to another, which is full now.
      if grant(row, own_id, own_key, f, at, passes, out_of_turn) then exhausted, cold, failed = {}, {}, nil end
    end
  end
  if not left then q.running = q.waiting > 0 and not next(exhausted) and 1 or 0 end
end

return q
