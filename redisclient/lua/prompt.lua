-- Reserves for a plan with prefix blocks whose request may not wait, as described in reserve.lua.
local enqueue, known_left
--@use prefix finer begin choose
