-- Reserves for a plan with prefix blocks whose request may wait, as described in reserve.lua.
--
-- It is the longest script. Without turns.lua, a fifth of it, Redis compiles it in less than 1.5 ms. Few clusters have
-- both requests with prefix blocks and requests that wait for budgets. Where one has, the latter are granted nothing by
-- this script, but by all others that grant, and by the next poll, which comes within 25 ms.
local known_left, open_turns
--@without turns
--@use prefix finer enqueue begin choose
