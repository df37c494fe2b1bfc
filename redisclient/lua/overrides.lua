-- Limits of targets that were set at run time, in place of the configuration's.
--
-- KEYS     overrides
--   overrides  string: what lb.PackOverrides returns, 56 bytes for each target; it lives for LIFE, 31 days, and
--              for 30 after it was last read at least
-- ARGV     nothing, to read them; or, to set those of one target, the 8 bytes that name it and the other 48: its
--          limits, or "" for those of the configuration
-- Returns  the string
local SIZE, MAX, LIFE, DAY = 56, 256, 2678400000, 86400000
local v, target, out = redis.call('GETRANGE', KEYS[1], 0, -1), ARGV[1], {}
if not target then
  if v ~= '' and redis.call('PTTL', KEYS[1]) < LIFE - DAY then redis.call('PEXPIRE', KEYS[1], LIFE) end
  return v
end
for at = 1, #v, SIZE do
  if string.sub(v, at, at + 7) ~= target then out[#out + 1] = string.sub(v, at, at + SIZE - 1) end
end
if ARGV[2] ~= '' then
  if #out >= MAX then table.remove(out, 1) end
  out[#out + 1] = target .. ARGV[2]
end
v = table.concat(out)
if v == '' then
  redis.call('UNLINK', KEYS[1])
else
  redis.call('SET', KEYS[1], v, 'PX', LIFE)
end
return v
