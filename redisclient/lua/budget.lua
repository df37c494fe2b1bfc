-- Budgets: what changes the state of a target. Where the states are is in budget_key.lua, and for tenants in
-- tenant.lua; whom a request is charged in budget_place.lua and budget_admit.lua.
--
-- The rule is that of package lb/budget, which explains it, and the names are the same. Both compute with the same
-- numbers in the same order, so that they agree to the last bit, which tests compare.
--
-- The states are one list of numbers, WIDTH for each target, because every run makes its tables again. Of a target at
-- offset o in it, s[o + 1] is when that was, in ms; s[o + 2] and s[o + 3] are the tokens and requests that are missing
-- from its buckets; s[o + 4] is its deficit; s[o + 5] is for how many ms it is closed; s[o + 6] and s[o + 7] are its
-- tokens and requests a minute; s[o + 8] is when it last took a request, and s[o + 9] the mean time between two;
-- s[o + 10] is for how many ms callers were told to ask again; s[o + 11] is 1 if its next request finds out whether it
-- is closed for longer.
local WIDTH, LIFE, PART = 11, '7200000', 1024 -- PART: numbers that are packed at once; Lua has no room for many more

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
  s[o + 10] = math.max(0, s[o + 10] - elapsed)
end
