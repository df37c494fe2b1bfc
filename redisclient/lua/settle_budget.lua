-- The text of the scripts settle and settle_tenant, behind what reads and writes their budgets.
--@use time
local b, now = read_budget(KEYS[1]), time_ms()
local o = find_target(b, ARGV[1])
if not o then return 0 end
correct_target(b.states, o, now, tonumber(ARGV[2]), tonumber(ARGV[3]))
write_budget(KEYS[1], b, now)
return 1
