-- Completes a task.
--
-- KEYS     table budget tasks expiry
-- ARGV     id actual owner
--   actual  tokens that it has used, -1 for unknown
-- Returns  an lb.TaskEnd; or that and the grants (queue.lua), if there are some
local tablekey, head = KEYS[1], redis.call('GETRANGE', KEYS[1], 0, 15)
local epoch = string.sub(head, 1, 8)
--@use ending
sweep(SWEEP)
local task = find(ARGV[1])
if task and task.till > now + task.ttl then task.till = now + task.ttl end -- the clock was set back
local answer = 0
if task and task.ended == 0 and now >= task.till then
  abandon(task)
  answer = 3
elseif task and task.ended == 0 then
  local b, actual = charged(), tonumber(ARGV[2])
  local o = actual >= 0 and find_target(b, task.addr)
  if o then settle_target(b.states, o, now, actual - task.tokens) end
  finish(task, 1)
  answer = 1
elseif task and now < task.till then
  answer = task.ended == 1 and 2 or 3
end
return ending(answer)
