-- The queue of a scope, for scripts that change loads: the function open_queue opens it. data is the table, or its
-- beginning; caller the name of the owner whose command this is. The rules are those of package lb/queue, which
-- explains them; the names are the same. This part reads, changes and writes what is in Redis. Those of queue_turn.lua
-- and queue_grant.lua follow it.
--
-- The last byte of the table's head is 1 while requests wait, 2 if some may wait for tokens: then there are endpoints
-- with a cap in tokens. They are in the following keys, whose names begin like
-- that of the table. Commands do not name them, because few need them.
--   queue    string: a head of 96 bytes (see save), the classes, the lists of endpoints, the flows. It has another
--            stamp after tickets were lost. A list with budgets has them as lists of candidates do (candidates.lua)
--   tickets  hash: flow -> its tickets in the order in which they came, 85 bytes each:
--            id 8; name of the owner 16, filled with blanks; since <I6; number <I4; max <I4; aging <I4; patience <I4;
--            row that it wants <I2, 65535 for none; list B; skip <I2; how often it was passed <I2; tokens <I4;
--            4 times, the best first: row <I2, 65535 for none; tokens saved there <I4; its cached blocks B
--   own      in an owner's hash: ticket -> "w" and its flow; "g" -> what its owner has not fetched yet: a stamp of 8
--            bytes, then 25 bytes for each: id 8; row <I2, 65535 if the ticket was evicted; requests <I4 and tokens <I6
--            there; cached blocks B; tokens of the lease <I4. It may lack some, which a heartbeat finds
--   lives    sorted set: owner -> when it is silent unless it polls before, in ms. One that is not there, of a version
--            that does not tell, is silent for nobody
--   untold   hash: owner -> what others granted it that cannot tell it, since its last poll: entries as in "g". The
--            next poll of the owner moves them there. What a silent owner has here goes to others (take_back.lua)
-- A script that grants tells its caller, in what is called grants where its answer is described: for each ticket of an
-- owner in the same gateway that was granted a row, or was evicted, the name of its owner as in tickets, then the 25
-- bytes. Owners are in the same gateway if the first 5 of the 16 bytes are the same.
-- A flow is named by class <I2, tenant 4 and its program 4; "of" is the first 6 of these. Times are in ms of this
-- server's clock. A ticket that is granted a row is a lease at once: its entry in own becomes that. A ticket without
-- its entry in own is void.
--@function open_queue(tablekey, data, caller)
local call, sub, pack, unpack, find = redis.call, string.sub, struct.pack, struct.unpack, string.find
local base = sub(tablekey, 1, -6)
local headkey, tickets, own = base .. 'queue', base .. 'tickets', base .. 'own:'
local lives, untold = base .. 'lives', base .. 'untold'
local SIZE, NO_ROW, KEEP, MOST = 85, 65535, 60000, 32 -- MOST: tickets that one step serves, for it to be short
local NEVER = 2 ^ 48 - 1
local LOST = 65534 -- in place of a row: what was granted was taken back, and the owner reserves again
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local head, epoch, whole = call('GETRANGE', headkey, 0, -1), sub(data, 1, 8), nil -- whole: the table, once it was read
local classes, lists, flows, loads, grants = {}, {}, {}, {}, {} -- flows also by name, lists by minus their number
local q = {now = now, flows = flows, classes = classes, waiting = 0, seq = 0, strict = 0, running = 0, last = 0,
  virtual = 0, scanned = 0, skip = 0, patient = 0, places = 0, time = 0, made = 0, gap = 0, longest = 0}

if sub(head, 1, 8) == epoch then
  local nc, nl, nf, at
  q.stamp, q.waiting, q.seq, q.strict, q.running, q.last, q.virtual, q.scanned, q.skip, q.patient, q.places,
    q.time, q.made, q.gap, q.longest, nc, nl, nf, at = unpack('<c8I4I4BBI6dI6I2I4dddddBBI2', head, 9)
  for i = 1, nc do
    local c = {}
    c.id, c.rank, c.reserved, c.weight, c.served, c.virtual, c.due, c.odd, c.chances, c.granted, c.tokens, c.last,
      c.waiting, at = unpack('<I2BI2ddddddddI6I4', head, at)
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
    f.name, f.served, f.tokens, f.chances, f.granted, f.last, f.waiting, f.ages,
      at = unpack('<c10ddddI6I4I6', head, at)
    f.class, f.of = classes[sub(f.name, 1, 2)], sub(f.name, 1, 6)
    flows[i], flows[f.name] = f, f
  end
elseif head ~= '' then
  call('UNLINK', headkey, tickets)
end

-- uncount takes n tickets that wait, with their tokens, out of the counts of a flow.
local function uncount(f, n, tokens)
  local c = f.class
  f.waiting, c.waiting, q.waiting = f.waiting - n, c.waiting - n, q.waiting - n
  f.tokens, c.tokens = f.tokens - tokens, c.tokens - tokens
end

-- work returns the tokens of the ticket at a position, 1 at least.
local function work(s, at) return math.max(unpack('<I4', s, at + 53), 1) end

-- recount counts the tickets that there are.
local function recount()
  q.stamp, q.patient = nil, 0
  for _, l in ipairs(lists) do l.waiting = 0 end
  for _, f in ipairs(flows) do
    f.text = f.text or call('HGET', tickets, f.name) or ''
    local tokens = 0
    for at = 1, #f.text, SIZE do
      tokens = tokens + work(f.text, at)
      local wants, number = unpack('<I2B', f.text, at + 46)
      local l = lists[-number]
      if l then l.waiting = l.waiting + 1 end
      if wants ~= NO_ROW then q.patient = q.patient + 1 end
    end
    uncount(f, f.waiting - #f.text / SIZE, f.tokens - tokens)
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

-- set changes the tickets of a flow, and notes when the first one has waited for its aging.
local function set(f, s)
  f.text, f.dirty, f.ages = s, true, NEVER
  if s == '' then return end
  local came, aging = unpack('<I6xxxxxxxxI4', s, 25)
  if aging > 0 then f.ages = came + aging end
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

-- remove removes the ticket at a position. Those at the positions of passes, by flow, were passed by it.
local function remove(f, at, passes)
  for g, of in pairs(passes or {}) do
    local s, out, from = text(g), {}, 1
    for _, p in ipairs(of) do
      out[#out + 1] = sub(s, from, p + 50)
      out[#out + 1] = pack('<I2', math.min(unpack('<I2', s, p + 51) + 1, 65535))
      from = p + 53
    end
    set(g, table.concat(out) .. sub(s, from))
  end
  local s = text(f)
  if at < (f.from or 1) then f.from = nil end
  local wants, number = unpack('<I2B', s, at + 46)
  local l = lists[-number]
  if l then l.waiting = l.waiting - 1 end
  if wants ~= NO_ROW then q.patient = q.patient - 1 end
  set(f, sub(s, 1, at - 1) .. sub(s, at + SIZE))
  uncount(f, 1, work(s, at))
end

-- notify notes what has become of a ticket, for its owner to fetch or to be told. What it cannot know before its next
-- poll is kept apart, if it may be taken back.
local function notify(owner, key, news, ...)
  local entry, name = pack('<c8I2I4I6BI4', ...), string.match(owner, '%S+')
  local far = sub(owner, 1, 5) ~= sub(string.format('%16s', caller), 1, 5)
  if far and unpack('<I2', entry, 9) < LOST and call('ZSCORE', lives, name) then
    call('HSET', untold, name, (call('HGET', untold, name) or '') .. entry)
    call('PEXPIRE', untold, KEEP)
    return
  end
  if not news or #news > 40000 then news = pack('>I4I4', tonumber(t[1]), tonumber(t[2])) end
  call('HSET', key, 'g', news .. entry)
  if not far then grants[#grants + 1] = owner .. entry end
end

-- read_clock reads the clock of the pace, if somebody waits.
function q.read_clock()
  if q.waiting == 0 then return end
  local passed = math.max(0, now - q.last) * q.places * q.running
  q.last, q.time, q.gap = now, q.time + passed, q.gap + passed
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
  q.read_clock()
  if at then remove(flows[name], at) end
end

-- show_life notes that the caller is there, and silent only in so many ms.
function q.show_life(ms)
  local till = call('ZSCORE', lives, caller)
  if till and tonumber(till) < now then q.scanned = 0 end -- the next poll of any owner grants what is its own turn now
  call('PEXPIRE', lives, KEEP) -- first, as it is allowed also when memory is short
  if call('ZADD', lives, string.format('%d', now + ms), caller) == 1 then call('PEXPIRE', lives, KEEP) end
end

q.text, q.since, q.set, q.remove, q.notify, q.lists, q.tickets = text, since, set, remove, notify, lists, tickets
q.uncount, q.fits, q.load = uncount, fits, load

-- fade has all that was before count for a part of it.
function q.fade(kept)
  q.time, q.made, q.gap, q.longest = q.time * kept, q.made * kept, q.gap * kept, q.longest * kept
end

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
    classes, lists, flows, q.virtual, q.skip, q.patient = {}, {}, {}, 0, 0, 0
  end
  q.stamp = q.stamp or pack('>I4I4', tonumber(t[1]), tonumber(t[2]))
  put('<c8c8I4I4BBI6dI6I2I4dddddBBI2', epoch, q.stamp, q.waiting, q.seq, q.strict, q.running, q.last, q.virtual,
    q.scanned, q.skip, q.patient, q.places, q.time, q.made, q.gap, q.longest, #classes, #lists, #flows)
  for _, c in ipairs(classes) do
    put('<I2BI2ddddddddI6I4', c.id, c.rank, c.reserved, c.weight, c.served, c.virtual, c.due, c.odd, c.chances,
      c.granted, c.tokens, c.last, c.waiting)
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
  for _, f in ipairs(flows) do
    put('<c10ddddI6I4I6', f.name, f.served, f.tokens, f.chances, f.granted, f.last, f.waiting, f.ages)
  end
  call('SETRANGE', tablekey, 15, some and mark or '\0')
  call('SET', headkey, table.concat(out), 'PX', KEEP)
end

--@use queue_turn queue_grant
return q
