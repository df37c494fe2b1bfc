-- Whose turn it is where endpoints have budgets: a part of the function open_queue (queue.lua). The rules are those of
-- lb/queue/budget.go, which explains them; the names are the same. A target is its state, as in budget.lua, with what
-- else is known of it.
--@function open_turns()
--@use budget_key budget_place
local AHEAD, key, turns = 8, base .. 'budget2', {} -- AHEAD: tickets for which tokens are set aside
local b, is_charged, all, offsets = read_budget(key), false, {}, {}
local views, ahead, set, before, chosen = {}, {}, {}, {}, nil -- set: what is set aside: row, tokens and name of each

for _, l in ipairs(lists) do
  if l.budgets then
    l.rows, l.names = {}, {}
    for at = 1, #l.runs, 14 do
      local from, count = unpack('<I2I2', l.runs, at)
      for row = from, from + count - 1 do l.rows[#l.rows + 1] = row end
    end
    l.limits = numbers(l.budgets, 1, 5 * #l.rows)
    for name in string.gmatch(sub(l.budgets, 40 * #l.rows + 1), '[^\n]+') do
      l.names[#l.names + 1] = name
      if not offsets[name] then all[#all + 1], offsets[name] = name .. '\n', 0 end
    end
  end
end
for i, o in ipairs(place_targets(b, table.concat(all), now)) do offsets[sub(all[i], 1, -2)] = o end

-- wait_of returns for how many ms a target cannot give so many tokens beside what is set aside.
local function wait_of(t, tokens, aside)
  local most, rate, requests = t[5], t[6], t[7]
  if rate > 0 then most = math.max(most, (t[2] + aside + math.min(tokens, rate) - rate) * 60000 / rate) end
  if requests > 0 then most = math.max(most, (t[3] + math.min(1, requests) - requests) * 60000 / requests) end
  return most
end

local function takes(t, tokens, aside) return not t.full and wait_of(t, tokens, aside) <= 0 end

-- targets_of returns the targets of a list as they are now.
local function targets_of(l)
  local out, places, s = {}, {}, b.states
  for i, name in ipairs(l.names) do places[i] = offsets[name] end
  local aside = b.refusals and asides(b, #places, places, l.limits, now, nil, l.bonus) or {}
  for i, o in ipairs(places) do
    local r = 5 * (i - 1)
    local t = {o = o, weight = l.limits[r + 1], aside = aside[o / WIDTH] or 0,
      full = not fits(l.rows[i], l.limits[r + 4], l.limits[r + 5])}
    for k = 1, WIDTH do t[k] = s[o + k] end
    local is_new = is_unused(t, 0, now)
    advance(t, 0, now)
    if is_new then t[4], t[8], t[9], t[10], t[11] = 0, 0, 0, 0, 0 elseif o == WIDTH * (b.last - 1) then out.last = i end
    t[2], t[3] = rescaled(t[2], t[6], l.limits[r + 2]), rescaled(t[3], t[7], l.limits[r + 3])
    t[6], t[7], out[i] = l.limits[r + 2], l.limits[r + 3], t
  end
  return out
end

-- asides_in returns what is set aside at each target of a list, with the first n of those that wait.
local function asides_in(l, n)
  local out = {}
  for i, t in ipairs(views[l]) do
    out[i] = t.aside
    for k = 1, n do
      if set[k].row == l.rows[i] then out[i] = out[i] + set[k].tokens end
    end
  end
  return out
end

-- ticket returns when a ticket came, for how long it may wait, its list and its tokens.
local function ticket(s, at)
  local came, max = unpack('<I6xxxxI4', s, at + 24)
  local number, tokens = unpack('<BxxxxI4', s, at + 48)
  return came, max, lists[-number], tokens
end

-- first_tickets returns the tickets for endpoints with budgets that came first: of each the tickets of its flow, and
-- its position there.
local function first_tickets()
  local out, next = {}, {}
  while #out < AHEAD do
    local best, text_of, came, number
    for i, f in ipairs(flows) do
      local s, at = f.waiting > 0 and text(f) or '', next[i] or 1
      while at < #s do
        local _, _, l = ticket(s, at)
        if l and l.budgets and not is_silent(sub(s, at + 8, at + 23)) then break end
        at = at + SIZE
      end
      next[i] = at
      if at < #s then
        local c, n = since(s, at)
        if not best or c < came or c == came and n < number then best, text_of, came, number = i, s, c, n end
      end
    end
    if not best then break end
    out[#out + 1] = {text = text_of, at = next[best]}
    next[best] = next[best] + SIZE
  end
  return out
end

-- set_aside sets aside what a ticket needs, at the target that can take it first, unless one can now.
local function set_aside(s, at)
  local came, _, l, tokens = ticket(s, at)
  local aside, first, least = asides_in(l, #set), 1, math.huge
  for i, t in ipairs(views[l]) do
    if takes(t, tokens, aside[i]) then return end
    local wait = wait_of(t, tokens, aside[i])
    if t.full then wait = math.max(wait, t[9] == 0 and 250 or math.min(t[9], 5000)) end
    if wait < least then first, least = i, wait end
  end
  if l.bonus <= 0 then return end
  local rate, bonus = views[l][first][6], l.bonus * math.max(0, now - came) / 1000
  if rate > 0 then tokens = math.min(tokens, rate) end
  set[#set + 1] = {row = l.rows[first], tokens = math.min(tokens, bonus), name = l.names[first]}
end

-- look looks at all targets as they are now, and sets aside what the first tickets need.
function turns.look()
  views, set, before = {}, {}, {}
  for _, l in ipairs(lists) do
    if l.budgets and l.waiting > 0 then views[l] = targets_of(l) end
  end
  ahead = first_tickets()
  for k, a in ipairs(ahead) do
    before[k] = #set
    set_aside(a.text, a.at)
  end
  for l, view in pairs(views) do
    view.beside, view.room = asides_in(l, #set), -1 -- room: the largest request that a target takes beside them
    for i, t in ipairs(view) do
      if takes(t, 0, view.beside[i]) then
        local is_enough = wait_of(t, math.huge, view.beside[i]) <= 0
        view.room = math.max(view.room, is_enough and math.huge or t[6] - t[2] - view.beside[i])
      end
    end
  end
  return set
end

-- besides returns what is set aside at each target for those before a ticket.
local function besides(l, s, at)
  for k, a in ipairs(ahead) do
    if a.at == at and a.text == s then return asides_in(l, before[k]), true end
  end
  return views[l].beside, false
end

-- takes returns whether a target can take the request of a ticket.
function turns.takes(s, at)
  local came, max, l, tokens = ticket(s, at)
  if not l or not views[l] or math.max(0, now - came) > max then return false end
  local aside, is_first = besides(l, s, at)
  -- Most are told by one number. Rounding must not make a difference between that and what the targets say.
  if not is_first and tokens > views[l].room + 1 then return false end
  for i, t in ipairs(views[l]) do
    if takes(t, tokens, aside[i]) then return true end
  end
  return false
end

-- choose returns the row of the target that takes the request of a ticket, for charge.
function turns.choose(s, at)
  local _, _, l, tokens = ticket(s, at)
  local view, aside, rounds, fewest = views[l], besides(l, s, at), {}, math.huge
  for i, t in ipairs(view) do
    if takes(t, tokens, aside[i]) then
      rounds[i] = (tokens - t[4]) / t.weight
      fewest = math.min(fewest, rounds[i])
    end
  end
  local i = view.last or 0
  repeat i = i % #view + 1 until rounds[i] and rounds[i] <= fewest
  chosen = {view = view, i = i, fewest = fewest, tokens = tokens}
  return l.rows[i]
end

-- charge charges the target that was chosen, and writes all targets of its list to the states.
function turns.charge()
  local c, s = chosen, b.states
  for _, t in ipairs(c.view) do
    t[4] = math.max(t[4], math.min(t[4] + math.max(0, c.fewest) * t.weight, c.tokens))
  end
  local t = c.view[c.i]
  t[4] = t[4] - c.tokens
  local common = math.huge
  for _, target in ipairs(c.view) do
    if target[5] == 0 then common = math.min(common, target[4] / target.weight) end
  end
  for _, target in ipairs(c.view) do target[4] = without_common(target[4], common, target.weight) end
  if t[6] > 0 then t[2] = t[2] + c.tokens end
  if t[7] > 0 then t[3] = t[3] + 1 end
  if t[8] > 0 and now > t[8] then
    local interval = now - t[8]
    t[9] = t[9] > 0 and t[9] + (interval - t[9]) / 8 or interval
  end
  t[8], b.last, is_charged = now, t.o / WIDTH + 1, true
  if t[11] > 0 then t[5], t[11] = math.max(t[5], 3000), 0 end
  for _, target in ipairs(c.view) do
    for k = 1, WIDTH do s[target.o + k] = target[k] end
  end
end

-- save writes what was charged.
function turns.save()
  if is_charged then write_budget(key, b, now) end
end
return turns
