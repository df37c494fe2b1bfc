-- Renews an owner, returns the leases of owners that are silent for too long, and tells which leases the owner has.
--
-- KEYS     table rows owners own view...
-- ARGV     owner ttl_ms keep_ms view_ms own_prefix part parts      only ids with id mod parts = part are told
-- Returns  {owners returned, owners alive, ids of 8 bytes each}
local keep = tonumber(ARGV[3])
local epoch = enter(KEYS[1], KEYS[3], KEYS[4], ARGV[1], keep)
redis.call('PEXPIRE', KEYS[2], keep)
for i = 5, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
local dead = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now() - tonumber(ARGV[2]))
for _, owner in ipairs(dead) do
  local own = redis.call('HGETALL', ARGV[5] .. owner)
  local live = false
  for i = 1, #own, 2 do
    if own[i] == 'b' then live = own[i + 1] == epoch end
  end
  for i = 1, #own, 2 do
    if live and own[i] ~= 'b' and own[i + 1] ~= '' then
      local row, tokens = struct.unpack('<I2I5', own[i + 1])
      add(KEYS[1], row, -1, -tokens)
    end
  end
  redis.call('DEL', ARGV[5] .. owner)
  redis.call('ZREM', KEYS[3], owner)
end
local part, parts, ids = tonumber(ARGV[6]), tonumber(ARGV[7]), {}
for _, id in ipairs(redis.call('HKEYS', KEYS[4])) do
  if #id == 8 and (string.byte(id, 1) + 256 * string.byte(id, 2)) % parts == part then ids[#ids + 1] = id end
end
return {#dead, redis.call('ZCARD', KEYS[3]), table.concat(ids)}
