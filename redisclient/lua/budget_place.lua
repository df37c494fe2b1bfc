-- Budgets: which targets have a state, and what is set aside at them.
--@use budget

-- is_unused returns whether a target was no candidate for a minute, and nothing is missing by now.
local function is_unused(s, o, now)
  local elapsed, rate, request_rate = now - s[o + 1], s[o + 6], s[o + 7]
  return elapsed >= 60000 and elapsed >= s[o + 5] and (s[o + 11] == 0 or elapsed >= 3600000) and
    (rate == 0 or s[o + 2] <= elapsed * rate / 60000) and
    (request_rate == 0 or s[o + 3] <= elapsed * request_rate / 60000)
end

-- rescaled returns what is missing from a bucket that gets another rate: it stays as full as it was.
local function rescaled(missing, from, to)
  if from == to or from == 0 then return missing end
  if missing > from and to > from then return to + (missing - from) end
  return missing / from * to
end

-- without_common returns a deficit without the rounds that are due to all.
local function without_common(deficit, common, weight)
  if common > 0 and common < math.huge then
    deficit = math.max(deficit - common * weight, math.min(deficit, 0))
  end
  return math.max(-4194304, math.min(deficit, 4194304))
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
-- the one with the key; how many these are, without those that wait at their own share unless all is set; and how many
-- more tokens it will be in 1 s. Those that do not count any more are removed. places and limits are as in admit.
local function asides(b, n, places, limits, now, key, bonus, all)
  local rs, kept, keys, out, ahead, growth, before, rates = b.refusals, {}, {}, {}, {}, {}, true, {}
  for i = 1, n do rates[places and places[i] / WIDTH or i - 1] = limits[5 * i - 3] end
  for i = 1, #rs, 4 do
    local since, target, own = rs[i], rs[i + 3], string.sub(b.keys, 2 * i - 1, 2 * i + 6)
    if now < rs[i + 1] and now > since - 1000 then
      before = before and own ~= key
      if before then
        local tokens, rate = rs[i + 2], rates[target] or 0
        if rate > 0 and rate < tokens then tokens = rate end
        if all or tokens > 0 then ahead[target] = (ahead[target] or 0) + 1 end
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
