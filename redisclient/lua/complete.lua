-- Completes a task. What is said of it counts once: one that was abandoned was given back all that it was charged, and
-- is charged what it has used.
--
-- KEYS     table budget tasks expiry
-- ARGV     id actual closed_ms most_ms owner
--   actual     tokens that it has used, -1 for unknown
--   closed_ms  for how long its target takes nothing, by its own word; 0: it takes more
--   most_ms    for how long that closes it at most: then the next request asks
-- Returns  an lb.TaskEnd; or that and the grants (queue.lua), if there are some
local tablekey, head = KEYS[1], redis.call('GETRANGE', KEYS[1], 0, 15)
local epoch = string.sub(head, 1, 8)
--@use ending
sweep(SWEEP)
local task, actual, closed = find(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if task and task.till > now + task.ttl then task.till = now + task.ttl end -- the clock was set back
local ended = task and task.ended
if ended == 0 and now >= task.till then
  abandon(task)
  ended = 3
elseif not task or now >= task.till then
  return ending(0)
end
if ended == 1 then return ending(2) end
if ended == CHARGED then return ending(3) end
local o = (actual >= 0 or closed > 0) and find_target(charged(), task.addr)
if ended == 0 then
  if o and actual >= 0 then settle_target(budget.states, o, now, actual - task.tokens) end
  finish(task, 1)
elseif actual >= 0 then
  if o then correct_target(budget.states, o, now, actual, 1) end
  task.ended = CHARGED
  put(task)
end
if o and closed > 0 then
  local s = budget.states
  advance(s, o, now)
  local most = tonumber(ARGV[4])
  if closed > most then closed, s[o + 11] = most, 1 end
  s[o + 5] = math.max(s[o + 5], closed)
end
return ending(ended == 0 and 1 or 3)
