-- Budgets: what is remembered of requests that were refused, and ask again.
--@use budget

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
