-- Takes back a reservation by the budget of a tenant whose answer the owner did not receive, as refund.lua does for
-- others. Idempotent.
--
-- KEYS     as for spend_tenant.lua: table rows owners own tenants
-- ARGV     as for spend_tenant.lua: addr id owner keep_ms params; then own_ms, as for release.lua
-- Returns  as release.lua. If the lease was not held a tombstone is left, since the reservation may still run
local open_queue -- nobody waits for a tenant
--@without queue
--@use time tenant budget_correct release
local lease = redis.call('HGET', KEYS[4], ARGV[2])
local answer = release({KEYS[1], KEYS[4]}, {'0', ARGV[6], ARGV[2]})
if answer == 0 then return 0 end
local b, at = read_budget(KEYS[5]), time_ms()
if #b.states > 0 then
  local _, tokens = struct.unpack('<I2I4', lease)
  correct_target(b.states, 0, at, -tokens, -1)
  write_budget(KEYS[5], b)
end
return answer
