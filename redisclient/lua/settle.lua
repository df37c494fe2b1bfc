-- Corrects what a target was charged for a request, by what the request has used beyond that. The text of budget.lua
-- precedes this one, and for a tenant that of tenant.lua.
--
-- KEYS     budget; for a tenant: tenants
-- ARGV     addr tokens requests
--   tokens, requests  by how much more or less than it was charged, as budget.State.Correct
-- Returns  1; 0 for a target without a budget
local b, now, requests = read_budget(KEYS[1]), time_ms(), tonumber(ARGV[3])
local o = find_target(b, ARGV[1])
if not o then return 0 end
local s = b.states
settle_target(s, o, now, tonumber(ARGV[2]))
if requests < 0 or s[o + 7] > 0 then s[o + 3] = math.max(0, s[o + 3] + requests) end
write_budget(KEYS[1], b, now)
return 1
