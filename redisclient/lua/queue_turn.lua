-- Whose turn it is: a part of the function open_queue (queue.lua).

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

-- is_silent returns whether an owner, named as in tickets, has shown no sign of life for too long. The caller has. It
-- asks once in a step.
local silences = {[string.format('%16s', caller)] = false}
local function is_silent(owner)
  if silences[owner] == nil then
    silences[owner] = (tonumber(call('ZSCORE', lives, string.match(owner, '%S+')) or NEVER) < now)
  end
  return silences[owner]
end

q.is_silent = is_silent

-- eligible returns whether the ticket at a position may be granted the row.
local function eligible(s, at, row)
  if is_silent(sub(s, at + 8, at + 23)) then return false end
  if q.turns then return q.turns.takes(s, at) end
  local came, max, patience, wants, number = unpack('<I6xxxxI4xxxxI4I2B', s, at + 24)
  local waited, l = math.max(0, now - came), lists[-number]
  if waited > max or not l or not open(l, row) then return false end
  local r1, v1, _, r2, v2, _, r3, v3, _, r4, v4 = unpack('<I2I4BI2I4BI2I4BI2I4', s, at + 57)
  if r1 == NO_ROW then return true end
  local here = row == r1 and v1 or row == r2 and v2 or row == r3 and v3 or row == r4 and v4 or 0
  if wants ~= NO_ROW and wants ~= row and waited < patience then -- no longer than to compute what is missing here
    local there = wants == r1 and v1 or wants == r2 and v2 or wants == r3 and v3 or wants == r4 and v4 or 0
    if there > here and waited * there < patience * (there - here) then return false end
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

-- first returns the position of the first ticket of a flow that may be granted the row, and when it came.
local function first(f, row)
  local s = text(f)
  f.from = f.from or 1 -- those in front that are silent are looked at once
  while f.from < #s and is_silent(sub(s, f.from + 8, f.from + 23)) do f.from = f.from + SIZE end
  for at = f.from, #s, SIZE do
    if eligible(s, at, row) then return at, since(s, at) end
  end
end

-- flow_of returns the flow of the class that was served least, among those that have somebody for the row, and the
-- position of its first ticket that may be granted it.
local function flow_of(class, row)
  local of, best, position, came, number = {}, nil, nil, nil, nil
  for _, f in ipairs(flows) do
    if f.class == class and f.waiting > 0 then of[#of + 1] = f end
  end
  table.sort(of, function(a, b) return a.served < b.served end)
  for _, f in ipairs(of) do
    if best and f.served > best.served then break end
    local at, c, n = first(f, row)
    if at and (not best or c < came or c == came and n < number) then best, position, came, number = f, at, c, n end
  end
  return best, position
end

-- takes_turns returns whether a flow waits, or was served more than one that begins to wait now.
function q.takes_turns(f) return f.waiting > 0 or f.served > f.class.virtual end

-- programs returns how many programs of the flow's tenant take turns, itself included.
local function programs(f)
  local n = 0
  for _, o in ipairs(flows) do
    if o == f or o.of == f.of and q.takes_turns(o) then n = n + 1 end
  end
  return n
end

-- aged returns the aged classes, in their order, if several classes wait.
local function aged()
  local is_aged, of = {}, {}
  for _, f in ipairs(flows) do
    local c = f.class
    if f.waiting > 0 and f.ages <= now and c.waiting < q.waiting then is_aged[c] = true end
  end
  for _, c in ipairs(classes) do
    if is_aged[c] then of[#of + 1] = c end
  end
  return of, is_aged
end

-- owe notes that tokens are granted to a class in its usual turn: the aged classes that it passes are owed their part.
-- Below 0 they were fewer than was thought.
local function owe(to, tokens)
  local of, is_aged = aged()
  local part = tokens / 9 / math.max(#of - (is_aged[to] and 1 or 0), 1)
  for _, c in ipairs(of) do
    if c ~= to then c.due = math.max(c.due + math.min(part, 0), math.min(c.due, 0) + part) end
  end
end

-- correct adds tokens to what a flow and its class were served, divided as in served.go.
function q.correct(name, tokens)
  local c, f = classes[sub(name, 1, 2)], flows[name]
  if c then
    local odd = c.odd * tokens
    local usual = tokens - odd
    c.served = math.max(0, c.served + usual / c.weight)
    c.due = c.due - odd
    owe(c, usual)
  end
  if not f then return end
  local n = programs(f)
  local more = f.served + tokens * n
  if tokens < 0 and n > 1 then more = math.max(more, math.min(f.served, c.virtual + tokens)) end
  f.served = math.max(0, more)
end

-- owed returns the aged classes that are owed something, the one that is owed most in front.
local function owed()
  local of, number = {}, {}
  for i, c in ipairs((aged())) do
    if c.due > 0 then of[#of + 1], number[c] = c, i end
  end
  table.sort(of, function(a, b) return a.due > b.due or a.due == b.due and number[a] < number[b] end)
  return of
end

-- ordered returns the classes that wait, in their order.
local function ordered()
  local order = {}
  for _, c in ipairs(classes) do
    if c.waiting > 0 then order[#order + 1] = c end
  end
  table.sort(order, function(a, b)
    if q.strict == 0 and a.served ~= b.served then return a.served < b.served end
    return a.rank < b.rank
  end)
  return order
end

-- next_in returns the flow whose turn it is at the row, of the first of the classes that has one, and the position of
-- its first ticket that may be granted it.
local function next_in(of, row)
  for _, c in ipairs(of) do
    local f, at = flow_of(c, row)
    if f then return f, at end
  end
end

-- peers returns the flow, and behind it the others of its tenant that wait: those that were served least in front.
local function peers(f)
  local of, number = {}, {}
  for i, o in ipairs(flows) do
    if o ~= f and o.of == f.of and o.waiting > 0 then of[#of + 1], number[o] = o, i end
  end
  table.sort(of, function(a, b) return a.served < b.served or a.served == b.served and number[a] < number[b] end)
  table.insert(of, 1, f)
  return of
end

-- turn returns the ticket whose turn it is at the row: its flow, its position, by flow the positions of those it
-- passes, and whether it has its turn because its class is aged.
local function turn(row)
  local f, at = next_in(owed(), row)
  local usual, first_at = next_in(ordered(), row)
  local out_of_turn = f ~= nil and f.class ~= usual.class
  if not out_of_turn then f, at = usual, first_at end
  if not f then return nil end
  q.start = f.served
  local best, most, last, before, passes, n, done = nil, 0, 0, {}, {}, programs(f), false
  for _, o in ipairs(peers(f)) do
    local s = done and '' or text(o)
    for p = o == f and at or 1, #s, SIZE do
      if o == f and p == at or eligible(s, p, row) then
        local skip, passed, tokens = unpack('<I2I2I4', s, p + 49)
        local w = worth(s, p, row)
        if not best or w > most and #before <= skip and
          (o.served - f.served) / n <= math.max(1, tokens - saved(warm(s, p), row)) then
          best, most, last = {o, p}, w, #before
        end
        before[#before + 1] = {o, p}
        done = passed >= 3 * skip or #before > math.min(q.skip, 1000)
        if done then break end
      end
    end
  end
  for i = 1, last do
    local o = before[i][1]
    passes[o] = passes[o] or {}
    table.insert(passes[o], before[i][2])
  end
  return best[1], best[2], passes, out_of_turn
end
