-- Reserves for a plan with prefix blocks whose request may wait, as described in reserve.lua.
local known_left
--@use prefix enqueue begin choose
