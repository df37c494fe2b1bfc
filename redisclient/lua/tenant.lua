-- Budgets of tenants: what budget_key.lua is for others.
--
-- A scope of tenants (lb.IsOfTenants) has very many targets, of which each request names one. So the budget of each is
-- in a field of its own, and no list has them:
--   tenants2 hash: address -> its state <ddddddddddd, in the order of budget.State; "" -> where forget_some continues:
--            2 or 5, which key it looks at next, and its cursors for that one and for the other
-- It lives for LIFE after the last change. Each address with a state has a row, unless the table was lost since.
--
-- ARGV[1] is the address.

--@use budget

-- read_budget and write_budget are those of budget_key.lua for the one target.
local function read_budget(key)
  local value = redis.call('HGET', key, ARGV[1])
  return {states = value and numbers(value, 1, WIDTH) or {}, last = 0, names = value and ARGV[1] .. '\n' or ''}
end

local function write_budget(key, b)
  redis.call('HSET', key, ARGV[1], packed(b.states))
  redis.call('PEXPIRE', key, LIFE)
end
