-- Where the budgets of a scope are. What is left of them is in one key beside its table:
--   budget2  string: <I2I2BI6: number of targets; which of them took the latest request, counted from 1, 0 for none;
--            number of refusals; when it was last given its time to live, in ms. For each target <ddddddddddd: its
--            state, in the order of budget.State. For each refusal <dddd: since when and until when it counts, in ms;
--            its tokens; its target, counted from 0. For each refusal its key, 8 bytes. Then for each target its
--            address and "\n"
-- It does not depend on the table: rows may be lost, or get another address, while a bucket is still empty. It lives
-- for LIFE, an hour and a half after the last change at least: longer than a target can be closed by its own word. A
-- target that is not in it was never used: its buckets are full, and it has no deficit.
--@use budget

-- read_budget returns what is in the key: states; last; names; and if there are refusals, these and their keys.
local function read_budget(key)
  local value = redis.call('GETRANGE', key, '0', '-1')
  if value == '' then return {states = {}, last = 0, names = '', size = 0, renewed = 0} end
  local n, last, refused, renewed = struct.unpack('<I2I2BI6', value)
  local b = {states = numbers(value, 12, WIDTH * n), last = last, size = #value, renewed = renewed}
  local at = 12 + 8 * WIDTH * n
  if refused > 0 then
    b.refusals, at = numbers(value, at, 4 * refused), at + 32 * refused
    b.keys, at = string.sub(value, at, at + 8 * refused - 1), at + 8 * refused
  end
  b.names = string.sub(value, at)
  return b
end

-- write_budget writes it back. Most changes leave the length as it is, and then SETRANGE costs half of SET with PX.
local function write_budget(key, b, now)
  local since = now - b.renewed
  local value = packed(b.states) .. (b.refusals and packed(b.refusals) .. b.keys or '') .. b.names
  local is_old = #value + 11 ~= b.size or since < 0 or since > 1800000
  value = struct.pack('<I2I2BI6', #b.states / WIDTH, b.last, b.refusals and #b.refusals / 4 or 0,
    is_old and now or b.renewed) .. value
  if is_old then
    redis.call('SET', key, value, 'PX', LIFE)
  else
    redis.call('SETRANGE', key, 0, value)
  end
end
