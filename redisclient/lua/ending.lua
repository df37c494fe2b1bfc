-- The end of the scripts schedule, complete and renew: functions that these call last. They need head, the head of the
-- table. The last argument is the owner that has sent it.

--@use tasks queue

-- granted grants what became free to those that wait, once what was charged is written. It returns the grants, nil for
-- none.
local function granted()
  if #freed == 0 or (string.byte(head, 16) or 0) == 0 then return nil end
  local queue = open_queue(tablekey, head, ARGV[#ARGV])
  queue.dispatch(freed)
  queue.save()
  return queue.grants()
end

-- ending writes what was charged, and grants what became free. It returns the answer, with the grants if there are any.
local function ending(answer)
  close()
  local grants = granted()
  return grants and {answer, grants} or answer
end
