-- Remembers that an endpoint has blocks in its cache: it has served a request in place of the one that was chosen.
--
-- KEYS     the page of each run...
-- ARGV     endpoint counts blocks ttl_ms      as for forget.lua and reserve.lua
-- Returns  1
local pages = redis.call('MGET', unpack(KEYS))
local now = math.floor(redis.call('TIME')[1] / 4) % 65536
local places, held = recall(pages, 0, ARGV[2], ARGV[3], now, 0)
note(KEYS, 0, pages, ARGV[2], ARGV[3], places, held, ARGV[1], now, tonumber(ARGV[4]))
return 1
