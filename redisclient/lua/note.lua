-- Remembers that an endpoint has blocks in its cache: it has served a request in place of the one that was chosen.
--
-- KEYS     pages
-- ARGV     endpoint chain ttl_ms      as for reserve.lua
-- Returns  1
local chain, now = ARGV[2], math.floor(redis.call('TIME')[1] / 4) % 65536
local left = redis.call('PTTL', KEYS[1])
local pages, parts, places, held = recall(KEYS[1], chain, #chain / 11)
note(KEYS[1], chain, #chain / 11, pages, parts, places, held, ARGV[1], now, tonumber(ARGV[3]), left)
return 1
