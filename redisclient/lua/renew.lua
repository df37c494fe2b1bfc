-- Has a task live longer. The texts of budget.lua, tasks.lua and ending.lua precede this one.
--
-- KEYS     table budget tasks expiry
-- ARGV     id ttl_ms owner
-- Returns  1; 0 if there is no such task that lives; or that and the grants (queue.lua), if there are some
sweep(SWEEP)
local task, answer = find(ARGV[1]), 0
if task and task.ended == 0 and now >= task.till then
  abandon(task)
elseif task and task.ended == 0 then
  task.ttl = tonumber(ARGV[2])
  task.till = now + task.ttl
  put(task)
  if task.ttl > tonumber(redis.call('HGET', tasks, 't')) then redis.call('HSET', tasks, 't', ARGV[2]) end
  answer = 1
end
return ending(answer)
