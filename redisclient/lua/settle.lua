-- Corrects the budget of a target by what a request has used beyond its estimate. The text of budget.lua precedes this
-- one.
--
-- KEYS     budget
-- ARGV     addr delta
--   delta  tokens, negative if it has used less
-- Returns  1; 0 for a target without a budget
local b, now = read_budget(KEYS[1]), time_ms()
local o = find_target(b, ARGV[1])
if not o then return 0 end
settle_target(b.states, o, now, tonumber(ARGV[2]))
write_budget(KEYS[1], b, now)
return 1
