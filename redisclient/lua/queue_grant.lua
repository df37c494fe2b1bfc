-- What is granted to those whose turn it is: a part of the function open_queue (queue.lua).

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
  c.virtual = q.start
  f.served = f.served + served * programs(f)
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

--@use turns

-- waits_for returns whether somebody waits who has a list with such a thing: runs, if there is an endpoint on it at
-- all; budgets, if its endpoints have some.
function q.waits_for(what)
  for _, l in ipairs(lists) do
    if l.waiting > 0 and (l[what] or '') ~= '' then return true end
  end
end

-- dispatch_budgets grants what endpoints with budgets can take, by the rules of turns.lua. It returns how many tickets
-- have had their turn: void ones, too.
local function dispatch_budgets(own_id, own_key)
  local turns, served = open_turns(), 0
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
function q.asides() return q.waits_for('budgets') and open_turns().look() or {} end

-- dispatch grants the open rows to those whose turn it is: the given ones, or all. A ticket of the caller that is
-- granted a row is in q.granted then; other owners are notified.
function q.dispatch(rows, own_id, own_key)
  local ends, served = {}, 0 -- ends: row, caps and list of the endpoints that may be open
  -- exhausted: rows that nobody can be granted now; cold: kinds of such rows; failed: the latest one
  local exhausted, cold, failed = {}, {}, nil
  q.warm = nil
  q.read_clock()
  if q.running == 0 and q.waits_for('runs') then rows = nil end -- whether the clock runs from now on depends on all
  local budgets = q.waits_for('budgets')
  if budgets and open_turns then served = dispatch_budgets(own_id, own_key) end
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
  local left = served >= MOST or budgets and not open_turns -- something may be open
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
  if not left then q.running = q.waits_for('runs') and not next(exhausted) and 1 or 0 end
end
