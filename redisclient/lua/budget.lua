-- Budgets: functions of the scripts spend, settle, restrict, refund and levels, whose texts this one precedes.
--
-- The rule is that of package lb/budget, which explains it, and the names are the same. Both compute with the same
-- numbers in the same order, so that they agree to the last bit, which tests compare.
--
-- What is left of the budgets of a scope is in one key beside its table:
--   budget   string: <I2I2BI6: number of targets; which of them took the latest request, counted from 1, 0 for none;
--            number of refusals; when it was last given its time to live, in ms. For each target <ddddddddd: its
--            state, in the order of budget.State. For each refusal <dddd: since when and until when it counts, in ms;
--            its tokens; its target, counted from 0. For each refusal its key, 8 bytes. Then for each target its
--            address and "\n"
-- It does not depend on the table: rows may be lost, or get another address, while a bucket is still empty. It lives
-- for LIFE, an hour and a half after the last change at least: longer than a target can be closed by its own word. A
-- target that is not in it was never used: its buckets are full, and it has no deficit.
--
-- The states are one list of numbers, WIDTH for each target, because every run makes its tables again. Of a target at
-- offset o in it, s[o + 1] is when that was, in ms; s[o + 2] and s[o + 3] are the tokens and requests that are missing
-- from its buckets; s[o + 4] is its deficit; s[o + 5] is for how many ms it is closed; s[o + 6] and s[o + 7] are its
-- tokens and requests a minute; s[o + 8] is when it last took a request, and s[o + 9] the mean time between two.
local WIDTH, LIFE, PART = 9, '7200000', 1024 -- PART: numbers that are packed at once; Lua has no room for many more

-- time_ms returns this server's time.
local function time_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- numbers returns n numbers that are packed in a value from a position on.
local function numbers(value, at, n)
  local out = {}
  for from = 0, n - 1, PART do
    local some = math.min(PART, n - from)
    local part = {struct.unpack('<' .. string.rep('d', some), value, at + 8 * from)}
    part[some + 1] = nil -- the position behind them
    if from == 0 then out = part else
      for i = 1, some do out[from + i] = part[i] end
    end
  end
  return out
end

-- packed returns the numbers as they are packed.
local function packed(list)
  local out, n = {}, #list
  for from = 0, n - 1, PART do
    local some = math.min(PART, n - from)
    out[#out + 1] = struct.pack('<' .. string.rep('d', some), _G.unpack(list, from + 1, from + some))
  end
  return table.concat(out)
end

-- read_budget returns what is in the key: states; last; names; and if there are refusals, these and their keys.
local function read_budget(key)
  local value = redis.call('GETRANGE', key, '0', '-1')
  if value == '' then return {states = {}, last = 0, names = '', size = 0, renewed = 0} end
  local n, last, refused, renewed = struct.unpack('<I2I2BI6', value)
  local b = {states = numbers(value, 12, WIDTH * n), last = last, size = #value, renewed = renewed}
  local at = 12 + 72 * n
  if refused > 0 then
    b.refusals, at = numbers(value, at, 4 * refused), at + 32 * refused
    b.keys, at = string.sub(value, at, at + 8 * refused - 1), at + 8 * refused
  end
  b.names = string.sub(value, at)
  return b
end

-- write_budget writes it back. Most changes leave the length as it is, and then SETRANGE costs half of SET with PX.
local function write_budget(key, b, now)
  local since = now - b.renewed
  local value = packed(b.states) .. (b.refusals and packed(b.refusals) .. b.keys or '') .. b.names
  local is_old = #value + 11 ~= b.size or since < 0 or since > 1800000
  value = struct.pack('<I2I2BI6', #b.states / WIDTH, b.last, b.refusals and #b.refusals / 4 or 0,
    is_old and now or b.renewed) .. value
  if is_old then
    redis.call('SET', key, value, 'PX', LIFE)
  else
    redis.call('SETRANGE', key, 0, value)
  end
end

-- find_target returns the offset of the state of an address, nil if it has none.
local function find_target(b, addr)
  local o = 0
  for name in string.gmatch(b.names, '[^\n]+') do
    if name == addr then return o end
    o = o + WIDTH
  end
end

-- advance lets the time pass until now.
local function advance(s, o, now)
  local elapsed = now - s[o + 1]
  if elapsed < 0 and elapsed > -1000 then return end
  s[o + 1] = now
  if elapsed <= 0 then return end
  local left = s[o + 6] ~= 0 and s[o + 2] - elapsed * s[o + 6] / 60000 or 0
  s[o + 2] = left > 0 and left or 0
  left = s[o + 7] ~= 0 and s[o + 3] - elapsed * s[o + 7] / 60000 or 0
  s[o + 3] = left > 0 and left or 0
  left = s[o + 5] - elapsed
  s[o + 5] = left > 0 and left or 0
end

-- settle_target corrects the state by what a request has used beyond its estimate.
local function settle_target(s, o, now, delta)
  advance(s, o, now)
  delta = math.min(math.max(delta, -2097152), 2097152)
  if delta < 0 or s[o + 6] > 0 then s[o + 2] = math.max(0, s[o + 2] + delta) end
  local deficit = s[o + 4]
  if delta < 0 then s[o + 4] = math.max(deficit, math.min(deficit - delta, 4194304))
  else s[o + 4] = math.min(deficit, math.max(deficit - delta, -4194304)) end
end

-- correct_target is that, and corrects how many requests the target was charged.
local function correct_target(s, o, now, tokens, requests)
  settle_target(s, o, now, tokens)
  if requests < 0 or s[o + 7] > 0 then s[o + 3] = math.max(0, s[o + 3] + requests) end
end

-- is_unused returns whether a target was no candidate for a minute, and nothing is missing by now.
local function is_unused(s, o, now)
  local elapsed, rate, request_rate = now - s[o + 1], s[o + 6], s[o + 7]
  return elapsed >= 60000 and elapsed >= s[o + 5] and (rate == 0 or s[o + 2] <= elapsed * rate / 60000) and
    (request_rate == 0 or s[o + 3] <= elapsed * request_rate / 60000)
end

-- left returns what is left in the buckets of a target, <dd: tokens and requests, -1 without a limit.
local function left(s, o)
  local tokens = s[o + 6] > 0 and math.max(0, s[o + 6] - s[o + 2]) or -1
  return struct.pack('<dd', tokens, s[o + 7] > 0 and math.max(0, s[o + 7] - s[o + 3]) or -1)
end

-- read_list returns what is in a list of candidates v: their number; where their rows are in the table t; their limits;
-- which of them are at a cap; and their names.
local function read_list(t, v)
  local unpack, byte, classes, runs = struct.unpack, string.byte, struct.unpack('<I2I2', v, 13)
  local first, places, full, n = 19 + 56 * classes, {}, {}, 0
  for run = first, first + 6 * (runs - 1), 6 do
    local _, from, count = unpack('<I2I2I2', v, run)
    for r = 17 + 9 * from, 8 + 9 * (from + count), 9 do
      n = n + 1
      places[n] = r
    end
  end
  local behind = first + 6 * runs + 4 * n
  local limits = numbers(v, behind, 5 * n)
  for i = 1, n do
    local r, cap, token_cap = places[i], limits[5 * i - 1], limits[5 * i]
    local low, mid, high = byte(t, r, r + 2)
    if cap > 0 and low + 256 * mid + 65536 * high >= cap or token_cap > 0 and unpack('<I6', t, r + 3) >= token_cap then
      full[i] = true
    end
  end
  return n, places, limits, full, string.sub(v, behind + 40 * n)
end

-- find_row returns the offset of the state of the candidate of a list v that has a row, nil if there is none.
local function find_row(b, v, row)
  local classes, runs = struct.unpack('<I2I2', v, 13)
  local first, n, index = 19 + 56 * classes, 0, nil
  for run = first, first + 6 * (runs - 1), 6 do
    local _, from, count = struct.unpack('<I2I2I2', v, run)
    if row >= from and row < from + count then index = n + row - from end
    n = n + count
  end
  for name in string.gmatch(index and string.sub(v, first + 6 * runs + 44 * n) or '', '[^\n]+') do
    if index == 0 then return find_target(b, name) end
    index = index - 1
  end
end

-- known_left returns what is left of the budget of the candidate of a list v that has a row.
local function known_left(key, v, row)
  local b = read_budget(key)
  local o = find_row(b, v, row)
  if not o then return struct.pack('<dd', -1, -1) end
  advance(b.states, o, time_ms())
  return left(b.states, o)
end

-- forget_unused removes the targets that are not among the names and are unused.
local function forget_unused(b, names, now)
  local s, kept, known, number, o, n = b.states, {}, {}, {}, 0, 0 -- number: of targets by their numbers before
  for i = 4, b.refusals and #b.refusals or 0, 4 do number[b.refusals[i]] = 0 end
  for name in string.gmatch(b.names, '[^\n]+') do
    local is_wanted = number[o / WIDTH] or string.find('\n' .. names, '\n' .. name .. '\n', 1, true)
    if is_wanted or not is_unused(s, o, now) then
      known[n + 1], number[o / WIDTH] = name .. '\n', n
      for i = 1, WIDTH do kept[WIDTH * n + i] = s[o + i] end
      n = n + 1
    end
    o = o + WIDTH
  end
  for i = 4, b.refusals and #b.refusals or 0, 4 do b.refusals[i] = number[b.refusals[i]] end
  b.states, b.names, b.last = kept, table.concat(known), (number[b.last - 1] or -1) + 1
end

-- place_targets has every name have a state, and returns the offset of each.
local function place_targets(b, names, now)
  local many = 2 * string.len(string.gsub(names, '[^\n]+', '')) + 64
  if #b.states > WIDTH * many then forget_unused(b, names, now) end
  local s, offsets, places, o = b.states, {}, {}, 0
  for name in string.gmatch(b.names, '[^\n]+') do
    offsets[name], o = o, o + WIDTH
  end
  for name in string.gmatch(names, '[^\n]+') do
    if not offsets[name] then
      offsets[name], b.names = o, b.names .. name .. '\n'
      for i = o + 1, o + WIDTH do s[i] = 0 end
      o = o + WIDTH
    end
    places[#places + 1] = offsets[name]
  end
  return places
end

-- asides returns how many tokens are set aside at each target, by its number counted from 0, for the refusals before
-- the one with the key; how many these are; and how many more tokens it will be in 1 s. Those that do not count any
-- more are removed. places and limits are as in admit.
local function asides(b, n, places, limits, now, key, bonus)
  local rs, kept, keys, out, ahead, growth, before, rates = b.refusals, {}, {}, {}, {}, {}, true, {}
  for i = 1, n do rates[places and places[i] / WIDTH or i - 1] = limits[5 * i - 3] end
  for i = 1, #rs, 4 do
    local since, target, own = rs[i], rs[i + 3], string.sub(b.keys, 2 * i - 1, 2 * i + 6)
    if now < rs[i + 1] and now > since - 1000 then
      before = before and own ~= key
      if before then
        local tokens, rate = rs[i + 2], rates[target] or 0
        if rate > 0 and rate < tokens then tokens = rate end
        ahead[target] = (ahead[target] or 0) + 1
        local set = math.min(tokens, bonus * math.max(0, now - since) / 1000)
        out[target] = (out[target] or 0) + set
        growth[target] = (growth[target] or 0) +
          (math.min(tokens, bonus * math.max(0, now - since + 1000) / 1000) - set)
      end
      for k = 0, 3 do kept[#kept + 1] = rs[i + k] end
      keys[#keys + 1] = own
    end
  end
  b.refusals, b.keys = #kept > 0 and kept or nil, table.concat(keys)
  return out, ahead, growth
end

-- refusal returns the number of the refusal with the key, counted from 0, nil if there is none.
local function refusal(b, key)
  local at = b.keys and string.find(b.keys, key, 1, true)
  while at and at % 8 ~= 1 do at = string.find(b.keys, key, at + 1, true) end
  return at and (at - 1) / 8
end

-- remember notes a refusal of a request with a key, at the target at offset o, unless there are too many.
local function remember(b, key, now, till, tokens, o)
  b.refusals, b.keys = b.refusals or {}, b.keys or ''
  local rs, i = b.refusals, refusal(b, key)
  if not i and #rs >= 256 then return end
  if not i then
    i, b.keys = #rs / 4, b.keys .. key
    rs[4 * i + 1] = now
  end
  rs[4 * i + 2], rs[4 * i + 3], rs[4 * i + 4] = till, tokens, o / WIDTH
end

-- forget_refusal forgets the refusal of a request with a key.
local function forget_refusal(b, key)
  local i = refusal(b, key)
  if not i then return end
  for _ = 1, 4 do table.remove(b.refusals, 4 * i + 1) end
  b.keys = string.sub(b.keys, 1, 8 * i) .. string.sub(b.keys, 8 * i + 9)
  if #b.refusals == 0 then b.refusals, b.keys = nil, nil end
end

-- with_extra adds what is set aside for those that wait.
local function with_extra(b, aside, extra)
  for _, a in ipairs(extra) do
    local o = find_target(b, a.name)
    if o then aside[o / WIDTH] = (aside[o / WIDTH] or 0) + a.tokens end
  end
  return aside
end

-- charge_target charges one of the targets with the fewest rounds to go until they can take the request: the next in
-- turn behind a target. It lets these rounds pass at all targets, and returns the number of the chosen one, and where
-- its state is. What else is given is as in admit.
local function charge_target(b, n, places, limits, rounds, fewest, behind, now, tokens)
  local s, chosen = b.states, behind
  repeat chosen = chosen % n + 1 until rounds[chosen] and rounds[chosen] <= fewest
  for i = 1, fewest > 0 and n or 0 do
    local o, most = places and places[i] or 9 * i - 9, rounds[i] and tokens or tokens * 0.5
    local before = s[o + 4]
    local deficit = before + fewest * limits[5 * i - 4]
    if deficit > most then deficit = most end
    if deficit > before then s[o + 4] = deficit end
  end
  local o = places and places[chosen] or WIDTH * (chosen - 1)
  s[o + 4] = s[o + 4] - tokens
  if s[o + 6] > 0 then s[o + 2] = s[o + 2] + tokens end
  if s[o + 7] > 0 then s[o + 3] = s[o + 3] + 1 end
  if s[o + 8] > 0 and now > s[o + 8] then
    local interval = now - s[o + 8]
    s[o + 9] = s[o + 9] > 0 and s[o + 9] + (interval - s[o + 9]) / 8 or interval
  end
  s[o + 8], b.last = now, o / WIDTH + 1
  return chosen, o
end

-- admit charges one of n targets for a request of so many tokens. It returns the number of the target, counted from 1,
-- and the offset of its state. If none can take the request, these are of the one that is expected to take it first,
-- and admit also returns in how many ms that is, and whether a rate is another one than before, so that the states have
-- to be written. limits are the weight of each target, its tokens and requests a minute, and its caps of requests and
-- of tokens in flight; full are those at a cap. key is by which a request asks again, nil if it does not. extra is what
-- is set aside for those that wait: see queue_grant.lua. With peek nothing is charged.
local function admit(b, n, names, limits, full, now, tokens, bonus, key, extra, peek)
  local places = b.names ~= names and place_targets(b, names, now)
  local aside, ahead, growth
  if b.refusals then aside, ahead, growth = asides(b, n, places, limits, now, key, bonus) end
  if extra and #extra > 0 then aside = with_extra(b, aside or {}, extra) end
  local s, last, after, is_other = b.states, WIDTH * (b.last - 1), 0, false
  local rounds, fewest, least, first, at = {}, math.huge, math.huge, 1, 0
  local r = 0 -- where the limits of a target are
  for i = 1, n do
    local o = places and places[i] or 9 * i - 9
    local elapsed, missing, missing_requests, closed = now - s[o + 1], s[o + 2], s[o + 3], s[o + 5]
    local rate, request_rate, interval = s[o + 6], s[o + 7], s[o + 9]
    if elapsed >= 0 or elapsed <= -1000 then
      s[o + 1] = now
      if elapsed > 0 then
        missing = rate ~= 0 and missing - elapsed * rate / 60000 or 0
        if missing < 0 then missing = 0 end
        missing_requests = request_rate ~= 0 and missing_requests - elapsed * request_rate / 60000 or 0
        if missing_requests < 0 then missing_requests = 0 end
        closed = closed > elapsed and closed - elapsed or 0
        s[o + 2], s[o + 3], s[o + 5] = missing, missing_requests, closed
      end
    end
    local weight, new_rate, new_request_rate = limits[r + 1], limits[r + 2], limits[r + 3]
    r = r + 5
    if elapsed >= 60000 and missing == 0 and missing_requests == 0 and closed == 0 then -- it is like a new one
      s[o + 4], s[o + 6], s[o + 7], s[o + 8], s[o + 9], interval = 0, new_rate, new_request_rate, 0, 0, 0
    else
      if o == last then after = i end
      if rate ~= new_rate or request_rate ~= new_request_rate then
        s[o + 6], s[o + 7], is_other = new_rate, new_request_rate, true
      end
    end
    local wait, more = closed, nil
    if new_rate > 0 then
      more = (missing + (aside and aside[o / WIDTH] or 0) + (tokens < new_rate and tokens or new_rate) - new_rate) *
        60000 / new_rate
      if more > wait then wait = more end
    end
    if new_request_rate > 0 then
      more = (missing_requests + (new_request_rate < 1 and new_request_rate or 1) - new_request_rate) * 60000 /
        new_request_rate
      if more > wait then wait = more end
    end
    if wait <= 0 and not full[i] then
      more = (tokens - s[o + 4]) / weight
      if more < 0 then more = 0 end
      rounds[i] = more
      if more < fewest then fewest = more end
    end
    if growth and growth[o / WIDTH] and new_rate > 0 then
      more = (missing + (aside[o / WIDTH] + growth[o / WIDTH]) + (tokens < new_rate and tokens or new_rate) -
        new_rate) * 60000 / new_rate
      if more > wait then wait = more end
    end
    if full[i] then
      more = interval == 0 and 250 or math.min(interval * (1 + (ahead and ahead[o / WIDTH] or 0)), 5000)
      if more > wait then wait = more end
    end
    if wait < least then least, first, at = wait, i, o end
  end
  if fewest == math.huge then return first, at, least, is_other end
  if peek then return first, at, nil, is_other end
  return charge_target(b, n, places, limits, rounds, fewest, after, now, tokens)
end
