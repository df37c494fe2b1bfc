-- The same affinity as in prompt_xor.lua at its best: the client has combined the blocks, and the script is known to
-- the server.
--
-- KEYS     counts: hash, host -> requests in flight ARGV     seconds to live, how many hosts, host..., the key of each
-- combination of blocks, the shortest first... Returns  the host; the client releases it with HINCRBY counts host -1
local hosts, present, target = tonumber(ARGV[2]), {}, nil
for i = 3, 2 + hosts do present[ARGV[i]] = true end
for i = #ARGV, 3 + hosts, -1 do
  local host = redis.call('GET', ARGV[i])
  if host and present[host] then
    target = host
    break
  end
end
if not target then
  local least
  for i = 3, 2 + hosts do
    local count = tonumber(redis.call('HGET', KEYS[1], ARGV[i])) or 0
    if not least or count < least then target, least = ARGV[i], count end
  end
end
redis.call('HINCRBY', KEYS[1], target, 1)
for i = 3 + hosts, #ARGV do redis.call('SET', ARGV[i], target, 'EX', ARGV[1]) end
return target
