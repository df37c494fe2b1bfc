-- Tasks: functions of the scripts schedule, complete, renew and heartbeat. They need tablekey, the key of the table,
-- and epoch, that of the table. A task counts in the table as a lease does, but belongs to the store and to no owner.
-- It is in two keys beside the table, of which neither counts without the other:
--   tasks    hash: id, 16 bytes -> <BI2I4I4I6c8c8: how it ended, an lb.TaskEnd, 0 while it lives, CHARGED if it was
--            abandoned and charged after that; row; tokens that it was charged, and counts while it lives; for how
--            long it lives unless it is renewed, in ms; when it ends, or is forgotten if it has ended; the epoch in
--            which it is counted; its key, zeros for none. Then its address. "k" and a key -> the id of the latest
--            task with the key. "b" -> the epoch in which all tasks are counted; "c" -> another epoch and the cursor up
--            to which they are; "t" -> the longest time that one lives
--   expiry   sorted set: id -> when it ends, or is forgotten. "b" -> infinity: without it, ids were lost
-- The number of owners in the table's head has FLAG added to it since there are tasks: if they are lost, a new epoch
-- begins. In a new epoch heartbeats count the tasks again.
--@use time budget_key budget_correct
local FLAG, SWEEP, CHARGED = 4194304, 16, 4 -- SWEEP: tasks that end in one step
local base = string.sub(tablekey, 1, -6)
local budgetkey, tasks, expiry = base .. 'budget2', base .. 'tasks', base .. 'expiry'
local NO_KEY = '\0\0\0\0\0\0\0\0'
local now, budget, freed = time_ms(), nil, {} -- budget: once it was read and changed; freed: rows

-- charged returns the budgets, to be written by close.
local function charged()
  budget = budget or read_budget(budgetkey)
  return budget
end

-- parse returns the task that is in a value.
local function parse(id, value)
  local task, at = {id = id}, nil
  task.ended, task.row, task.tokens, task.ttl, task.till, task.epoch, task.key, at =
    struct.unpack('<BI2I4I4I6c8c8', value)
  task.addr = string.sub(value, at)
  return task
end

-- find returns the task with the id, nil for none.
local function find(id)
  local value = redis.call('HGET', tasks, id)
  return value and parse(id, value) or nil
end

-- put writes a task.
local function put(task)
  redis.call('HSET', tasks, task.id, struct.pack('<BI2I4I4I6c8c8', task.ended, task.row, task.tokens, task.ttl,
    task.till, task.epoch, task.key) .. task.addr)
  redis.call('ZADD', expiry, string.format('%d', task.till), task.id)
end

-- count adds a task to its row n times.
local function count(task, n)
  if task.epoch ~= epoch then return end
  local at = 16 + 9 * task.row
  local requests, sum = struct.unpack('<I3I6', redis.call('GETRANGE', tablekey, at, at + 8))
  redis.call('SETRANGE', tablekey, at,
    struct.pack('<I3I6', math.max(0, requests + n), math.max(0, sum + n * task.tokens)))
end

-- finish ends a task: it counts no more, and is remembered for a while.
local function finish(task, ended)
  count(task, -1)
  if task.epoch == epoch then freed[#freed + 1] = task.row end
  task.ended, task.till = ended, now + task.ttl
  put(task)
end

-- abandon ends a task that was not renewed, and gives back what it was charged.
local function abandon(task)
  local b = charged()
  local o = find_target(b, task.addr)
  if o then correct_target(b.states, o, now, -task.tokens, -1) end
  finish(task, 3)
end

-- sweep ends some of the tasks that were not renewed, and forgets some that ended long ago. It returns whether there
-- may be more.
local function sweep(most)
  local due = redis.call('ZRANGEBYSCORE', expiry, '-inf', string.format('%d', now), 'LIMIT', 0, most)
  if #due == 0 then return false end
  local gone, fields = {}, {}
  for i, value in ipairs(redis.call('HMGET', tasks, unpack(due))) do
    local task = value and parse(due[i], value)
    if task and task.ended == 0 then
      abandon(task)
    else
      gone[#gone + 1], fields[#fields + 1] = due[i], due[i]
      local key = task and task.key ~= NO_KEY and 'k' .. task.key
      if key and redis.call('HGET', tasks, key) == task.id then fields[#fields + 1] = key end
    end
  end
  if #gone > 0 then
    redis.call('HDEL', tasks, unpack(fields))
    redis.call('ZREM', expiry, unpack(gone))
  end
  return #due == most
end

-- close writes what was charged.
local function close()
  if budget then write_budget(budgetkey, budget, now) end
end
