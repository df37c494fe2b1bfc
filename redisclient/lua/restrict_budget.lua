-- The text of the scripts restrict and restrict_tenant, behind what reads and writes their budgets.
--@use time
local b, now = read_budget(KEYS[1]), time_ms()
local o, s = find_target(b, ARGV[1]), b.states
if not o then return 0 end
local tokens, requests, tokens_reset, requests_reset, closed, most, reopen = struct.unpack('<ddddddd', ARGV[2])
advance(s, o, now)
if reopen > 0 then
  if s[o + 5] > 0 then s[o + 5], s[o + 11] = 0, 1 end
  write_budget(KEYS[1], b, now)
  return 1
end
if tokens >= 0 and s[o + 6] > 0 then
  s[o + 2] = math.max(s[o + 2], s[o + 6] - tokens)
elseif tokens == 0 then
  closed = math.max(closed, tokens_reset)
end
if requests >= 0 and s[o + 7] > 0 then
  s[o + 3] = math.max(s[o + 3], s[o + 7] - requests)
elseif requests == 0 then
  closed = math.max(closed, requests_reset)
end
if closed > most then closed, s[o + 11] = most, 1 end
s[o + 5] = math.max(s[o + 5], closed)
write_budget(KEYS[1], b, now)
return 1
