-- plain.lua with all counts read by one command.
--
-- KEYS     counts: hash, host -> requests in flight ARGV     host...      the first, drawn at random, wins among hosts
-- that have equally few Returns  the host; the client releases it with HINCRBY counts host -1
local counts = redis.call('HMGET', KEYS[1], unpack(ARGV))
local chosen, least = ARGV[1], tonumber(counts[1]) or 0
for i = 2, #ARGV do
  local count = tonumber(counts[i]) or 0
  if count < least then
    chosen, least = ARGV[i], count
  end
end
redis.call('HINCRBY', KEYS[1], chosen, 1)
return chosen
