-- Budgets: the targets of a list of candidates (candidates.lua).
--@use budget_key

-- read_list returns what is in a list of candidates v: their number; where their rows are in the table t; their limits;
-- which of them are at a cap; and their names.
local function read_list(t, v)
  local unpack, byte, classes, runs = struct.unpack, string.byte, struct.unpack('<I2I2', v, 13)
  local first, places, full, n = 19 + 56 * classes, {}, {}, 0
  for run = first, first + 6 * (runs - 1), 6 do
    local _, from, count = unpack('<I2I2I2', v, run)
    for r = 17 + 9 * from, 8 + 9 * (from + count), 9 do
      n = n + 1
      places[n] = r
    end
  end
  local behind = first + 6 * runs + 4 * n
  local limits = numbers(v, behind, 5 * n)
  for i = 1, n do
    local r, cap, token_cap = places[i], limits[5 * i - 1], limits[5 * i]
    local low, mid, high = byte(t, r, r + 2)
    if cap > 0 and low + 256 * mid + 65536 * high >= cap or token_cap > 0 and unpack('<I6', t, r + 3) >= token_cap then
      full[i] = true
    end
  end
  return n, places, limits, full, string.sub(v, behind + 40 * n)
end

-- find_row returns the offset of the state of the candidate of a list v that has a row, nil if there is none.
local function find_row(b, v, row)
  local classes, runs = struct.unpack('<I2I2', v, 13)
  local first, n, index = 19 + 56 * classes, 0, nil
  for run = first, first + 6 * (runs - 1), 6 do
    local _, from, count = struct.unpack('<I2I2I2', v, run)
    if row >= from and row < from + count then index = n + row - from end
    n = n + count
  end
  for name in string.gmatch(index and string.sub(v, first + 6 * runs + 44 * n) or '', '[^\n]+') do
    if index == 0 then return find_target(b, name) end
    index = index - 1
  end
end
