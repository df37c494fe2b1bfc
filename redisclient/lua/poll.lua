-- Tells an owner what has become of its waiting requests, and grants what is open by now because time has passed.
--
-- KEYS     table own queue
-- ARGV     stamp count silence
--   stamp    that the last answer began with, and how many requests it named: they are not named again
--   silence  in how many ms from now the owner is silent unless it polls before
-- Returns  {a stamp, then for each request what queue.lua describes, 200 at most; the beginning of the queue; the
--          grants, if there are some}
--@use take_back queue
local SCAN = 20 -- how many ms after a look at all endpoints there is another one
local grants
local mark, head = redis.call('HMGET', KEYS[2], 'b', 'g'), redis.call('GETRANGE', KEYS[1], 0, 15)
local base, owner, t = string.sub(KEYS[1], 1, -6), string.sub(KEYS[2], #KEYS[1]), redis.call('TIME')
local now, stamp = t[1] * 1000 + math.floor(t[2] / 1000), struct.pack('>I4I4', tonumber(t[1]), tonumber(t[2]))
local till = redis.call('ZSCORE', base .. 'lives', owner)
redis.call('PEXPIRE', base .. 'lives', 60000) -- first, as it is allowed also when memory is short
local is_new = redis.call('ZADD', base .. 'lives', string.format('%d', now + ARGV[3]), owner)
if is_new == 1 then redis.call('PEXPIRE', base .. 'lives', 60000) end
local news, untold = mark[2] or '', redis.call('HGET', base .. 'untold', owner)
if ARGV[2] ~= '0' and string.sub(news, 1, 8) == ARGV[1] then
  news = string.sub(news, 9 + 25 * ARGV[2])
  redis.call('HDEL', KEYS[2], 'g')
  if news ~= '' then
    news = stamp .. news
    redis.call('HSET', KEYS[2], 'g', news)
  end
end
if untold then
  news = (news == '' and stamp or news) .. untold
  redis.call('HSET', KEYS[2], 'g', news)
  redis.call('HDEL', base .. 'untold', owner)
end
if (string.byte(head, 16) or 0) > 0 then
  local q = open_queue(KEYS[1], head, owner)
  if q.waiting == 0 then q.save() end
  if q.waiting > 0 and (math.abs(now - q.scanned) >= SCAN or till and tonumber(till) < now) then
    redis.call('PEXPIRE', KEYS[3], 60000)
    local more = take_back(q, KEYS[1], string.sub(head, 1, 8), stamp)
    q.dispatch()
    if more then q.scanned = 0 end -- the next poll of any owner goes on
    q.save()
    grants = q.grants()
    news = redis.call('HMGET', KEYS[2], 'g')[1] or ''
  end
end
local queue = redis.call('GETRANGE', KEYS[3], 0, 1359) -- 96 bytes, and 79 of each class: up to 16
if string.sub(queue, 1, 8) ~= string.sub(head, 1, 8) then queue = '' end
return {string.sub(news, 1, 8 + 25 * 200), queue, grants}
