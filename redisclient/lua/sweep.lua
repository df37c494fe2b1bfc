-- Ends the tasks that were not renewed in time, and counts those that a new epoch does not.
--
-- Returns  the rows where something became free; whether there is more to do; and whether tasks were lost: then a new
--          epoch has to begin
--@use shared
--@function sweep_tasks(tablekey, rowskey, epoch, keep)
--@use tasks
local marks = redis.call('HMGET', tasks, 'b', 'c', 't')
local life = string.format('%d', 2 * keep + 2 * (marks[3] or 0))
redis.call('PEXPIRE', tasks, life)
redis.call('PEXPIRE', expiry, life)
if not redis.call('ZSCORE', expiry, 'b') then
  redis.call('UNLINK', tasks)
  return freed, false, true
end
-- If the clock was set back, some tasks end too late.
local latest = string.format('(%d', now + (marks[3] or 0))
for _, id in ipairs(redis.call('ZRANGEBYSCORE', expiry, latest, '(+inf', 'LIMIT', 0, SWEEP)) do
  local task = find(id)
  if task then
    task.till = now + task.ttl
    put(task)
  end
end
local more = sweep(2 * SWEEP)
if marks[1] ~= epoch then
  local cursor, left = string.sub(marks[2] or '', 1, 8) == epoch and string.sub(marks[2], 9) or '0', 2 * SWEEP
  local part = redis.call('HSCAN', tasks, cursor, 'COUNT', 4 * SWEEP)
  for i = 1, #part[2], 2 do
    local task = #part[2][i] == 16 and parse(part[2][i], part[2][i + 1])
    local at = task and task.ended == 0 and task.epoch ~= epoch and left > 0 and
      rows(tablekey, rowskey, {task.addr}, keep)
    if at then
      task.row, task.epoch, left = at[1], epoch, left - 1
      count(task, 1)
      put(task)
    end
  end
  if left == 0 then part[1] = cursor end -- what is left of this part is counted by the next command
  if left > 0 and part[1] == '0' then
    redis.call('HSET', tasks, 'b', epoch)
    redis.call('HDEL', tasks, 'c')
  else
    redis.call('HSET', tasks, 'c', epoch .. part[1])
    more = true
  end
end
close()
return freed, more
