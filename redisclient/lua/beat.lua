-- Renews an owner, returns the leases of owners that are silent for too long, and tells which leases the owner has.
--
-- KEYS     table rows owners own view...
-- ARGV     owner ttl_ms keep_ms view_ms own_prefix part parts      only ids with id mod parts = part are told
-- Returns  {owners returned, owners alive, since when the owner's leases are kept, ids of leases, ids of tombstones}, ids of 8
--          bytes each
local keep, lost = tonumber(ARGV[3]), false
local epoch = enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], keep)
redis.call('PEXPIRE', KEYS[2], keep)
for i = 5, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
-- The clock may have been set back: an owner that was heard of in the future was heard of now.
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. now(), '+inf')) do
  redis.call('ZADD', KEYS[3], now(), owner)
end
local dead = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now() - tonumber(ARGV[2]))
for _, owner in ipairs(dead) do
  local own, mark = redis.call('HGETALL', ARGV[5] .. owner), nil
  for i = 1, #own, 2 do
    if own[i] == 'b' then mark = own[i + 1] end
  end
  lost = lost or not mark
  for i = 1, #own, 2 do
    if mark == epoch and #own[i] == 8 and own[i + 1] ~= '' then
      local row, tokens = struct.unpack('<I2I4', own[i + 1])
      add(KEYS[1], row, -1, -tokens)
    end
  end
  redis.call('DEL', ARGV[5] .. owner)
  redis.call('ZREM', KEYS[3], owner)
end
roll(KEYS[1], KEYS[3])
if lost then
  renew(KEYS[1], KEYS[2])
  enter(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], keep)
end
local part, parts, leases, tombstones = tonumber(ARGV[6]), tonumber(ARGV[7]), {}, {}
local own = redis.call('HGETALL', KEYS[4])
for i = 1, #own, 2 do
  local id, ids = own[i], own[i + 1] == '' and tombstones or leases
  if #id == 8 and (string.byte(id, 1) + 256 * string.byte(id, 2)) % parts == part then ids[#ids + 1] = id end
end
return {#dead, redis.call('ZCARD', KEYS[3]), redis.call('HGET', KEYS[4], 'n'), table.concat(leases), table.concat(tombstones)}
