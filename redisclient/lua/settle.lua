-- Corrects what a target was charged for a request, by what the request has used beyond that. The text of budget.lua
-- precedes this one, and for a tenant that of tenant.lua.
--
-- KEYS     budget; for a tenant: tenants
-- ARGV     addr tokens requests
--   tokens, requests  by how much more or less than it was charged, as budget.State.Correct
-- Returns  1; 0 for a target without a budget
local b, now = read_budget(KEYS[1]), time_ms()
local o = find_target(b, ARGV[1])
if not o then return 0 end
correct_target(b.states, o, now, tonumber(ARGV[2]), tonumber(ARGV[3]))
write_budget(KEYS[1], b, now)
return 1
