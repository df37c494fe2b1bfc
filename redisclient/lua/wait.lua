-- Reserves for a plan without prefix blocks whose request may wait, as described in reserve.lua.
local known_left, match, record
--@use enqueue begin choose
