-- Records that an endpoint has the blocks of a prompt in its cache, because it served the request in place of the
-- endpoint that was chosen.
--
-- KEYS     pages
-- ARGV     endpoint chain ttl_ms
--   endpoint  the lower half of the hash of its address, 4 bytes
--   chain     as in prefix.lua
--   ttl_ms    how long cache entries are assumed to live
-- Returns  1
--@use prefix
local chain, now = ARGV[2], math.floor(redis.call('TIME')[1] / 4) % 65536
local left = redis.call('PTTL', KEYS[1])
local pages, parts, places, held = match(KEYS[1], chain, #chain / 11)
record(KEYS[1], chain, #chain / 11, pages, parts, places, held, ARGV[1], now, tonumber(ARGV[3]), left)
return 1
