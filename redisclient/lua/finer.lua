-- finer looks up the inner blocks of a prompt (prompt.Block) behind those that match (prefix.lua) has found, in the
-- page of the last one or in their own, up to the first one without an entry. The reservation's chain, which
-- reserve.lua describes, has count blocks with these. It returns held with what it has found behind, and by how much
-- the numbers of these blocks are larger than their indexes in that list.
local function finer(key, chain, count, inner, held, pages, parts)
  if inner == 0 then return held, 0 end
  local sub, find, n, all, field, i = string.sub, string.find, count - inner, {unpack(held)}, parts[#parts - 1], 1
  local function upto(k) return (struct.unpack('<I4', chain, 11 * count + 4 * k - 3)) end
  while i <= inner and upto(n + i) <= upto(#held) do i = i + 1 end
  local shift = n + i - 1 - #held
  while i <= inner do
    local block, page = sub(chain, 11 * n + 8 * i - 7, 11 * n + 8 * i), pages[field]
    local at = find(page, block, 1, true)
    while at and at % 32 ~= 1 do at = find(page, block, at + 1, true) end
    if not at or at + 31 > #page then
      local own = 11 * n + 8 * inner + 3 * i
      field = sub(chain, own - 2, own)
      if pages[field] == nil then pages[field] = redis.call('HGET', key, field) end
      page = pages[field]
      at = page and find(page, block, 1, true)
      while at and at % 32 ~= 1 do at = find(page, block, at + 1, true) end
      if not at or at + 31 > #page then break end
    end
    all[#all + 1], i = sub(page, at + 8, at + 31), i + 1
  end
  return all, shift
end
