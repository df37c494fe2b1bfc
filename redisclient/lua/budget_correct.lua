-- Budgets: corrects what a target was charged.
--@use budget

-- settle_target corrects the state by what a request has used beyond its estimate.
local function settle_target(s, o, now, delta)
  advance(s, o, now)
  delta = math.min(math.max(delta, -2097152), 2097152)
  if delta < 0 or s[o + 6] > 0 then s[o + 2] = math.max(0, s[o + 2] + delta) end
  local deficit = s[o + 4]
  if delta < 0 then s[o + 4] = math.max(deficit, math.min(deficit - delta, 4294967296))
  else s[o + 4] = math.min(deficit, math.max(deficit - delta, -4294967296)) end
end

-- correct_target is that, and corrects how many requests the target was charged.
local function correct_target(s, o, now, tokens, requests)
  settle_target(s, o, now, tokens)
  if requests < 0 or s[o + 7] > 0 then s[o + 3] = math.max(0, s[o + 3] + requests) end
end
