-- Releases leases, and takes waiting requests out of the queue. What becomes free is granted to those that wait
-- (queue.lua). Idempotent. For what happens when Redis answers late see ../late.go.
--
-- KEYS     table own
-- ARGV     granted own_ms id..., perhaps turn
--   granted  1 if the answers to the reservations were received; 0 if not: then a reservation may still run after this
--            command, and a tombstone is left for it
--   own_ms   how long a hash lives that has only tombstones
--   turn     of one lease that has waited: its flow (queue.lua) 10, and by how many tokens d more it was served than
--            it was counted for there
-- Returns  how many of the leases were held; or that and the grants (queue.lua), if there are some
--@function release(KEYS, ARGV)
--@use queue
local last, turn = #ARGV, nil
if #ARGV[last] > 8 then last, turn = last - 1, ARGV[last] end
local lease = redis.call('HMGET', KEYS[2], 'b', unpack(ARGV, 3, last))
local head = redis.call('GETRANGE', KEYS[1], 0, 15)
local live = lease[1] and lease[1] == string.sub(head, 1, 8)
local queue = live and string.byte(head, 16) > 0 and open_queue(KEYS[1], head, string.sub(KEYS[2], #KEYS[1]))
local held, freed = 0, queue and {} -- freed: rows
for i = 3, last do
  local l = lease[i - 1]
  if l and (l ~= '' or ARGV[1] == '1') then
    redis.call('HDEL', KEYS[2], ARGV[i])
    if #l > 8 then
      if queue then queue.leave(string.sub(l, 2), ARGV[i], string.format('%16s', string.sub(KEYS[2], #KEYS[1]))) end
      held = held + 1
    elseif l ~= '' and live then
      local row, tokens = struct.unpack('<I2I4', l)
      local at = 16 + 9 * row
      local requests, sum = struct.unpack('<I3I6', redis.call('GETRANGE', KEYS[1], at, at + 8))
      redis.call('SETRANGE', KEYS[1], at, struct.pack('<I3I6', math.max(0, requests - 1), math.max(0, sum - tokens)))
      held = held + 1
      if queue then freed[#freed + 1] = row end
      if queue and turn then queue.correct(string.sub(turn, 1, 10), (struct.unpack('<d', turn, 11))) end
    end
  elseif not l and ARGV[1] == '0' then
    redis.call('HSET', KEYS[2], ARGV[i], '')
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
  end
end
if queue and held > 0 then
  queue.dispatch(freed)
  queue.save()
  local grants = queue.grants()
  if grants then return {held, grants} end
end
return held
