-- Budgets: charges one of several targets for a request.
--@use budget_place

-- left returns what is left in the buckets of a target, <dd: tokens and requests, -1 without a limit.
local function left(s, o)
  local tokens = s[o + 6] > 0 and math.max(0, s[o + 6] - s[o + 2]) or -1
  return struct.pack('<dd', tokens, s[o + 7] > 0 and math.max(0, s[o + 7] - s[o + 3]) or -1)
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
    local o = places and places[i] or WIDTH * (i - 1)
    local before = s[o + 4]
    local deficit = before + fewest * limits[5 * i - 4]
    if deficit > tokens then deficit = tokens end
    if deficit > before then s[o + 4] = deficit end
  end
  local o = places and places[chosen] or WIDTH * (chosen - 1)
  s[o + 4] = s[o + 4] - tokens
  local common = math.huge -- rounds that are due to all
  for i = 1, n do
    local at = places and places[i] or WIDTH * (i - 1)
    if s[at + 5] == 0 then common = math.min(common, s[at + 4] / limits[5 * i - 4]) end
  end
  for i = 1, n do
    local at = places and places[i] or WIDTH * (i - 1)
    s[at + 4] = without_common(s[at + 4], common, limits[5 * i - 4])
  end
  if s[o + 6] > 0 then s[o + 2] = s[o + 2] + tokens end
  if s[o + 7] > 0 then s[o + 3] = s[o + 3] + 1 end
  if s[o + 8] > 0 and now > s[o + 8] then
    local interval = now - s[o + 8]
    s[o + 9] = s[o + 9] > 0 and s[o + 9] + (interval - s[o + 9]) / 8 or interval
  end
  s[o + 8], b.last = now, o / WIDTH + 1
  if s[o + 11] > 0 then s[o + 5], s[o + 11] = math.max(s[o + 5], 3000), 0 end
  return chosen, o
end

-- admit charges one of n targets for a request of so many tokens. It returns the number of the target, counted from 1,
-- and the offset of its state. If none can take the request, these are of the one that is expected to take it first,
-- and admit also returns in how many ms that is, and whether a rate is another one than before, so that the states have
-- to be written. limits are the weight of each target, its tokens and requests a minute, and its caps of requests and
-- of tokens in flight; full are those at a cap. key is by which a request asks again, nil if it does not. extra is what
-- is set aside for those that wait: see queue_grant.lua. With peek nothing is charged. is_told, if there is one,
-- returns whether the times count that others were told, by the number of the target that is expected to take it first;
-- own tells that the caps are those of the caller's share.
local function admit(b, n, names, limits, full, now, tokens, bonus, key, extra, peek, is_told, own)
  local places = b.names ~= names and place_targets(b, names, now)
  local aside, ahead, growth
  if b.refusals then aside, ahead, growth = asides(b, n, places, limits, now, key, bonus, own) end
  if extra and #extra > 0 then aside = with_extra(b, aside or {}, extra) end
  local told = is_told and {least = math.huge} -- by the times that others were told
  local s, last, after, is_other = b.states, WIDTH * (b.last - 1), 0, false
  local rounds, fewest, least, first, at = {}, math.huge, math.huge, 1, 0
  local r = 0 -- where the limits of a target are
  for i = 1, n do
    local o = places and places[i] or WIDTH * (i - 1)
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
        s[o + 10] = s[o + 10] > elapsed and s[o + 10] - elapsed or 0
      end
    end
    local weight, new_rate, new_request_rate = limits[r + 1], limits[r + 2], limits[r + 3]
    r = r + 5
    local asks = s[o + 11] > 0 and elapsed < 3600000
    if elapsed >= 60000 and missing == 0 and missing_requests == 0 and closed == 0 and not asks then -- like a new one
      s[o + 4], s[o + 6], s[o + 7], s[o + 8], s[o + 9], interval = 0, new_rate, new_request_rate, 0, 0, 0
      s[o + 10], s[o + 11] = 0, 0
    else
      if o == last then after = i end
      if rate ~= new_rate or request_rate ~= new_request_rate then
        missing = rescaled(missing, rate, new_rate)
        missing_requests = rescaled(missing_requests, request_rate, new_request_rate)
        s[o + 2], s[o + 3], s[o + 6], s[o + 7], is_other = missing, missing_requests, new_rate, new_request_rate, true
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
    if told then
      wait = math.max(wait, s[o + 10])
      if wait < told.least then told = {least = wait, first = i, at = o} end
    end
  end
  if fewest == math.huge then
    told = told and is_told(first) and told
    if told and told.least <= least + 5000 then return told.first, told.at, told.least end
    for i = 1, told and n or 0 do s[(places and places[i] or WIDTH * (i - 1)) + 10] = 0 end -- they begin again
    return first, at, least, is_other
  end
  if peek then return first, at, nil, is_other end
  return charge_target(b, n, places, limits, rounds, fewest, after, now, tokens)
end
