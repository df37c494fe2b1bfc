-- Least request with plain counters: takes the host with the fewest requests, and counts one more there.
--
-- KEYS     counts: hash, host -> requests in flight ARGV     host...      the first, drawn at random, wins among hosts
-- that have equally few Returns  the host; the client releases it with HINCRBY counts host -1
local chosen = ARGV[1]
local least = tonumber(redis.call('HGET', KEYS[1], chosen)) or 0
for i = 2, #ARGV do
  local count = tonumber(redis.call('HGET', KEYS[1], ARGV[i])) or 0
  if count < least then
    chosen, least = ARGV[i], count
  end
end
redis.call('HINCRBY', KEYS[1], chosen, 1)
return chosen
