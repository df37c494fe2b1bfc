-- Budgets: what is remembered of requests that were refused, and ask again.
--@use budget

-- refusal returns the number of the refusal with the key, counted from 0, nil if there is none.
local function refusal(b, key)
  local at = b.keys and string.find(b.keys, key, 1, true)
  while at and at % 8 ~= 1 do at = string.find(b.keys, key, at + 1, true) end
  return at and (at - 1) / 8
end

-- tell notes that a caller was told to ask again in so many ms, at the target at offset o.
local function tell(s, o, ms, tokens, is_full)
  local rate, requests, interval, pace = s[o + 6], s[o + 7], s[o + 9], 0
  if rate > 0 then pace = math.min(tokens, rate) * 60000 / rate end
  if requests > 0 then pace = math.max(pace, math.min(1, requests) * 60000 / requests) end
  if is_full or pace == 0 then pace = math.max(pace, interval == 0 and 250 or interval) end
  s[o + 10] = ms + math.min(pace, 5000)
end

-- at_share returns the number of the latest refusal that waits at its caller's share, nil for none.
local function at_share(b)
  for i = b.refusals and #b.refusals / 4 - 1 or -1, 0, -1 do
    if b.refusals[4 * i + 3] == 0 then return i end
  end
end

-- has_room returns whether one more is remembered that waits at its caller's share, or that does not.
local function has_room(b, is_at_share)
  return not b.refusals or #b.refusals < 256 or not is_at_share and at_share(b)
end

-- forget_at forgets the refusal with a number.
local function forget_at(b, i)
  for _ = 1, 4 do table.remove(b.refusals, 4 * i + 1) end
  b.keys = string.sub(b.keys, 1, 8 * i) .. string.sub(b.keys, 8 * i + 9)
end

-- remember notes a refusal of a request with a key, at the target at offset o, for which there is room: with too many,
-- that of one that waits at its caller's share.
local function remember(b, key, now, till, tokens, o)
  b.refusals, b.keys = b.refusals or {}, b.keys or ''
  local rs, i = b.refusals, refusal(b, key)
  if not i then
    if #rs >= 256 then forget_at(b, at_share(b)) end
    i, b.keys = #rs / 4, b.keys .. key
    rs[4 * i + 1] = now
  end
  rs[4 * i + 2], rs[4 * i + 3], rs[4 * i + 4] = till, tokens, o / WIDTH
end

-- forget_refusal forgets the refusal of a request with a key.
local function forget_refusal(b, key)
  local i = refusal(b, key)
  if not i then return end
  forget_at(b, i)
  if #b.refusals == 0 then b.refusals, b.keys = nil, nil end
end
