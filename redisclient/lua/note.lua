-- Remembers that an endpoint has blocks in its cache: it has served a request in place of the one that was chosen.
--
-- KEYS     the page of each run...
-- ARGV     endpoint chain ttl_ms      as for reserve.lua
-- Returns  1
local pages = redis.call('MGET', unpack(KEYS))
local now = math.floor(redis.call('TIME')[1] / 4) % 65536
local places, held = recall(pages, 0, ARGV[2], #KEYS)
note(KEYS, 0, pages, ARGV[2], #KEYS, places, held, ARGV[1], now, ARGV[3])
return 1
