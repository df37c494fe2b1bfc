-- Reserves for a plan without prefix blocks whose request may wait, as described in reserve.lua.
local known_left, match, finer, record
--@use enqueue begin choose
