-- Affinity to the blocks of prompts, as it is published: a block's SHA-1 is combined with those before it by XOR, digit
-- by digit and bit by bit, and each combination is a key whose value is the host that had it last. The longest known
-- combination decides; if none is known, or that host is gone, the host with the fewest requests.
--
-- KEYS     counts: hash, host -> requests in flight ARGV     seconds to live, how many hosts, host..., the SHA-1 of
-- each block in hex... Returns  the host; the client releases it with HINCRBY counts host -1
local function bytes(hex)
  local out = {}
  for i = 1, #hex, 2 do table.insert(out, tonumber(string.sub(hex, i, i + 1), 16)) end
  return out
end
local function bits(a, b)
  local sum = 0
  for bit = 0, 7 do
    local one = 2 ^ bit
    if (a % (2 * one) >= one) ~= (b % (2 * one) >= one) then sum = sum + one end
  end
  return sum
end
local function xor(a, b)
  local x, y, out = bytes(a), bytes(b), ''
  for i = 1, #x do out = out .. string.format('%02x', bits(x[i], y[i])) end
  return out
end
local hosts, present = tonumber(ARGV[2]), {}
for i = 3, 2 + hosts do present[ARGV[i]] = true end
local keys, key, target, known = {}, nil, nil, true
for i = 3 + hosts, #ARGV do
  key = key and xor(key, ARGV[i]) or ARGV[i]
  keys[#keys + 1] = key
  local host = known and redis.call('GET', key)
  known = host and present[host]
  if known then target = host end
end
if not target then
  local least
  for i = 3, 2 + hosts do
    local count = tonumber(redis.call('HGET', KEYS[1], ARGV[i])) or 0
    if not least or count < least then target, least = ARGV[i], count end
  end
end
redis.call('HINCRBY', KEYS[1], target, 1)
for i = 1, #keys do redis.call('SET', keys[i], target, 'EX', ARGV[1]) end
return target
