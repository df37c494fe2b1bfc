-- Has a task live longer.
--
-- KEYS     table budget tasks expiry
-- ARGV     id ttl_ms owner
-- Returns  1; 0 if there is no such task that lives; or that and the grants (queue.lua), if there are some
local tablekey, head = KEYS[1], redis.call('GETRANGE', KEYS[1], 0, 15)
local epoch = string.sub(head, 1, 8)
--@use ending
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
