-- Lowers what is left of a target's budget to what the target has said. The text of budget.lua precedes this one,
-- and for a tenant that of tenant.lua.
--
-- KEYS     budget; for a tenant: tenants
-- ARGV     addr said
--   said   <ddddd: the tokens and the requests that the target would still take, -1 for unknown; in how many ms all
--          tokens are there again, and all requests, 0 for unknown; in how many ms it takes anything, 0 for now
-- Returns  1; 0 for a target without a budget
local b, now = read_budget(KEYS[1]), time_ms()
local o, s = find_target(b, ARGV[1]), b.states
if not o then return 0 end
local tokens, requests, tokens_reset, requests_reset, closed = struct.unpack('<ddddd', ARGV[2])
advance(s, o, now)
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
s[o + 5] = math.max(s[o + 5], math.min(closed, 3600000))
write_budget(KEYS[1], b, now)
return 1
