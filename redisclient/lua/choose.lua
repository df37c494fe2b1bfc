-- The rule of lb.Choose: takes the cheapest candidate below its caps, and creates the lease. For a plan with prefix
-- blocks, candidates that have the beginning of the prompt cached get a credit, and the prompt is recorded for the
-- chosen one. A request that may wait does so if there is no room for it, or if others wait (enqueue.lua). reserve.lua
-- describes KEYS, ARGV and the answer; begin.lua comes before this text.
local hashes, chain = first + 6 * runs, ARGV[3]
local tokens, tie, unit, each, stall, count, whole, wait, length, prompt_tokens, ttl, due
local left, pages, parts, places, held, credit, cached, stalls, inner, plain
if prompt then
  tokens, tie, unit, each, stall, count, inner, whole, wait, length, prompt_tokens, ttl, due =
    unpack('<dI4BI4dBBddddI4B', ARGV[2])
  left = due > 0 and call('PTTL', prompt) -- here, since no error may occur once something was counted
  plain = count - inner
  pages, parts, places, held = match(prompt, chain, plain)
else
  tokens, tie, unit, each, stall = unpack('<dI4BI4d', ARGV[2])
end
local added = unit == 1 and math.min(math.max(tokens, 0), 4294967295) or 1
if held then
  -- An endpoint that has a block has all blocks before it too: it computed them first, and engines evict the ends of
  -- prompts first. So the index of the last block that it has is how many it has.
  local byte, find, before = string.byte, string.find, nil
  local worths, oldest, short = 11 * count + 1, math.floor(ttl / 4000), #ARGV[2] > 64 and {}
  if #chain > 15 * count then worths = worths + 4 * count end
  for at = 65, short and #ARGV[2] or 0, 6 do short[sub(ARGV[2], at, at + 3)] = unpack('<I2', ARGV[2], at + 4) end
  local all, shift = finer(prompt, chain, count, inner, held, pages, parts)
  for m = #all, 1, -1 do
    local holders, k = all[m], m > #held and m + shift or m
    for i = 1, holders ~= before and 19 or 0, 6 do
      local endpoint, low, high = sub(holders, i, i + 3), byte(holders, i + 4, i + 5)
      local age = (now - low - 256 * high + 8) % 65536 - 8
      if endpoint ~= '\0\0\0\0' and age <= (short and short[endpoint] or oldest) then
        local at = find(v, endpoint, hashes, true)
        while at do
          local c = (at - hashes) / 4
          if c % 1 == 0 and not (cached and cached[c]) then
            if not credit then credit, cached, stalls = {}, {}, {} end
            credit[c], cached[c] = unpack('<I4', chain, worths + 4 * k - 4) / length, k
            if stall > 0 then stalls[c] = stall * (1 - unpack('<I4', chain, 11 * count + 4 * k - 3) / length) end
          end
          at = find(v, endpoint, at + 1, true)
        end
      end
    end
    before = holders
  end
end
local tied, ties, least, i, byte = {}, 0, math.huge, 0, string.byte
local rule, other, second = 1, nil, math.huge -- what decides, as lb.Rule; the next best candidate, what it costs
local counted = each > 0 or stall > 0 or credit and wait > 0 -- whether the number of requests matters
local warm, fewest = nil, math.huge -- candidates that have some blocks; requests at the candidate with the fewest
local full = nil -- candidates at a cap: index and cost
local factor, free = 0, 0
if home then factor, free = unpack('<dI2', home) end
if factor > 0 then
  -- place is where the row of a candidate is in the table, class where its class is in the list.
  local place, class, loads, total, weights = {}, {}, {}, added, 0
  for run = first, first + 6 * (runs - 1), 6 do
    local c, from, many = unpack('<I2I2I2', v, run)
    for row = from, from + many - 1 do
      place[i], class[i], i = 17 + 9 * row, first_class + 56 * c, i + 1
    end
  end
  for k = 11, #home, 2 do
    local c = unpack('<I2', home, k)
    local requests, sum = unpack('<I3I6', t, place[c])
    loads[c] = unit == 1 and sum or requests
    total, weights = total + loads[c], weights + unpack('<d', v, class[c] + 16)
  end
  local limit = factor * total / weights
  for k = 11, #home, 2 do
    local c = unpack('<I2', home, k)
    local weight, cap, _, _, token_cap = unpack('<ddddd', v, class[c] + 16)
    local requests, sum = unpack('<I3I6', t, place[c])
    local open = (cap == 0 or requests < cap) and (token_cap == 0 or sum < token_cap)
    if open and (factor == math.huge or loads[c] < limit * weight or requests < free * weight) then
      if ties > 0 then
        other = c
        break
      end
      tied[1], ties, runs, rule = 65536 * place[c] + c, 1, 0, 3 -- no costs are needed
    end
  end
  i = 0
end
for run = first, first + 6 * (runs - 1), 6 do
  local c, from, many = unpack('<I2I2I2', v, run)
  local base, slope, weight, cap, capacity, over_slope, token_cap = unpack('<ddddddd', v, first_class + 56 * c)
  local running = math.max(0, math.min(32, capacity)) -- at most these wait while it computes a prompt: lb.maxStalled
  local open, both = cap == 0 and token_cap == 0, counted or capacity < math.huge
  if cap == 0 and not open then cap = math.huge end
  for part = from, from + many - 1, 256 do
    local n, r = math.min(256, from + many - part), 17 + 9 * part
    -- One unpack of many rows costs less than one for each.
    local loads = unit == 1 and {unpack('<' .. string.rep(both and 'I3I6' or 'xxxI6', n), t, r)}
    local sums = token_cap > 0 and {unpack('<' .. string.rep('xxxI6', n), t, r)} -- tokens, if they have a cap
    for k = 1, n do
      local load, x = loads and loads[k], 0
      if loads and both then
        load, x = loads[2 * k], loads[2 * k - 1]
      elseif not load or cap > 0 then
        local low, mid, high = byte(t, r, r + 2)
        x = low + 256 * mid + 65536 * high
        load = load or x
      end
      local room = open or x < cap and not (sums and sums[k] >= token_cap)
      if room and x < fewest then fewest = x end
      if room or cached and waits then
        load = load + added + each * (x + 1)
        if stall > 0 then load = load + (stalls and stalls[i] or stall) * math.min(x, running) end
        local cost = base + slope * load / weight
        if x + 1 > capacity then cost = cost + over_slope * (x + 1 - capacity) / weight end
        if cost ~= cost then cost = math.huge end -- no number
        if not room then
          full = full or {}
          full[#full + 1], full[#full + 2] = 65536 * r + i, cost
        elseif credit and credit[i] then
          warm = warm or {}
          warm[#warm + 1], warm[#warm + 2] = 65536 * r + i, cost
        elseif cost <= least then
          if cost < least then
            if least < math.huge then other, second = tied[1] % 65536, least end
            least, ties = cost, 0
          end
          ties = ties + 1
          tied[ties] = 65536 * r + i
        elseif cost < second then
          other, second = i, cost
        end
      end
      i, r = i + 1, r + 9
    end
  end
end
if (warm or full) and wait > 0 then whole = whole * math.min(1 + wait * fewest, 16) end
if warm then
  local mixed = ties > 0
  for k = 1, #warm, 2 do
    local cost = warm[k + 1] - whole * credit[warm[k] % 65536]
    if cost <= least then
      if cost < least then
        if least < math.huge then other, second = tied[1] % 65536, least end
        least, ties, mixed = cost, 0, false
      end
      ties = ties + 1
      tied[ties] = warm[k]
    elseif cost < second then
      other, second = warm[k] % 65536, cost
    end
  end
  if mixed and ties > 1 then -- the tie is counted in the order of the candidates
    for k = ties + 1, #tied do tied[k] = nil end
    table.sort(tied, function(a, b) return a % 65536 < b % 65536 end)
  end
end
if home and ties > 1 then
  local rank = {}
  for k = 11, #home, 2 do rank[unpack('<I2', home, k)] = k end
  local best, where = math.huge, nil
  for k = 1, ties do
    local r = rank[tied[k] % 65536] or math.huge
    if r < best then best, where = r, tied[k] end
  end
  if where then
    other, second, rule = tied[where == tied[1] and 2 or 1] % 65536, least, 3
    tied[1], ties = where, 1
  end
end
local wanted, patience
if factor == 0 and full and unpack('<I4', waits, 13) > 0 then -- it may rather wait for an endpoint that is full
  local lowest = ties > 0 and least or math.huge
  for k = 1, #full, 2 do
    local c = full[k] % 65536
    local cost = full[k + 1] - whole * (credit[c] or 0)
    if cost < lowest then
      lowest, wanted = cost, cached[c] and full[k]
    end
  end
  if wanted then
    local most, delay = unpack('<I4I4', waits, 13)
    local upto = unpack('<I4', chain, 11 * count + 4 * cached[wanted % 65536] - 3)
    if ties > 0 and delay > 0 then most = math.min(most, delay * (upto / length)) end
    patience = math.floor(math.floor(most) / 10) * 10
    wanted = patience > 0 and (math.floor(wanted / 65536) - 17) / 9
  end
end
if waits and (ties == 0 or wanted or byte(t, 16) > 0) then
  local answer, c = enqueue(KEYS, ARGV, t, v, {full = ties == 0, wanted = wanted or 65535,
    patience = patience, tokens = tokens,
    cached = cached, chain = chain, count = count, length = length, prompt_tokens = prompt_tokens})
  if c and prompt then -- it was granted candidate c
    local at = hashes + 4 * c
    record(prompt, chain, plain, pages, parts, places, held, sub(v, at, at + 3), now, ttl, left)
  end
  return answer
end
if ties == 0 then return {-1} end
local k = tied[1 + tie % ties]
if ties > 1 then other, second, rule = tied[k == tied[1] and 2 or 1] % 65536, least, 2 end
local why = pack('<BI2d', rule, other or 65535, second < math.huge and second - least or 0)
local r = math.floor(k / 65536)
i = k % 65536
local requests, sum = unpack('<I3I6', t, r)
local blocks = cached and cached[i] or 0
if prompt then -- cached blocks need no prefill
  if blocks > 0 then
    tokens = tokens - math.floor(prompt_tokens * (unpack('<I4', chain, 11 * count + 4 * blocks - 3) / length))
  end
  tokens = math.min(math.max(tokens, 0), 4294967295)
end
-- The write that Redis may refuse when it is out of memory comes first, so that then nothing is counted.
call('SETRANGE', KEYS[1], r - 1, pack('<I3I6', requests + 1, sum + tokens))
call('HSET', KEYS[2], ARGV[1], pack(prompt and '<I2I4BB' or '<I2I4B', (r - 17) / 9, tokens, 0, blocks))
if not prompt then return pack('<I2I4I8', i, requests + 1, sum + tokens) .. why end
local hash = hashes + 4 * i
record(prompt, chain, plain, pages, parts, places, held, sub(v, hash, hash + 3), now, ttl, left)
return pack('<I2I4I8BI4', i, requests + 1, sum + tokens, blocks, tokens) .. why
