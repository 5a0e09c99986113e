Coroutines have their own count of instructions, and resume catches errors.

--- endless coroutine | cancel
coroutine.resume(coroutine.create(function() while true do end end))
return "went on"
--- endless coroutines one after the other | cancel
while true do coroutine.resume(coroutine.create(function() while true do end end)) end
--- short coroutines one after the other | cancel
while true do coroutine.resume(coroutine.create(function() for i = 1, 100 do end end)) end
--- coroutines in coroutines, each short | cancel
local function nest(depth)
  for _ = 1, 100 do
    if depth > 0 then coroutine.resume(coroutine.create(nest), depth - 1) end
  end
end
while true do nest(20) end
--- wrap | cancel
while true do pcall(coroutine.wrap(function() while true do end end)) end
--- wrap in wrap | cancel
local function nest(depth) while true do pcall(coroutine.wrap(nest), depth + 1) end end
nest(0)
--- yield for ever | cancel
local f = coroutine.wrap(function() while true do coroutine.yield() end end)
while true do f() end
--- pcall with yields inside a coroutine | cancel
local f = coroutine.wrap(function()
  while true do pcall(function() coroutine.yield() while true do end end) end
end)
while true do f() end
--- an endless finalizer of a coroutine's variable | cancel
local co = coroutine.create(function()
  local x <close> = setmetatable({}, { __close = function() while true do end end })
  coroutine.yield()
end)
coroutine.resume(co)
coroutine.close(co)
--- close catches no end | cancel
while true do
  local co = coroutine.create(function()
    local x <close> = setmetatable({}, { __close = function() while true do end end })
    coroutine.yield()
  end)
  coroutine.resume(co)
  coroutine.close(co)
end
--- resuming a finished coroutine | ok [false,"cannot resume dead coroutine"]
local co = coroutine.create(function() end)
coroutine.resume(co)
return coroutine.resume(co)
--- resuming itself | ok [false,"cannot resume non-suspended coroutine"]
return coroutine.resume(coroutine.running())
--- results of resume and wrap | ok [true,3,4,7,"x"]
local co = coroutine.create(function(a, b) local c = coroutine.yield(b, a) return c end)
local ok, x, y = coroutine.resume(co, 4, 3)
local _, z = coroutine.resume(co, 7)
return ok, x, y, z, coroutine.wrap(function() return "x" end)()
--- an error in wrap has its place | error script_failed place:1:
local f = coroutine.wrap(load("error 'x'", "=place"))
f()
--- a million coroutines | error resource_exhausted
local all = {}
while true do all[#all + 1] = coroutine.create(function() end) end
--- iswrap of non functions | error script_failed
coroutine.wrap(1)
--- a coroutine that a stop ended is not closed in the same call | cancel
local co = coroutine.create(function()
  local x <close> = setmetatable({}, { __close = function() while true do end end })
  while true do end
end)
local y <close> = setmetatable({}, { __close = coroutine.wrap(function() coroutine.close(co) end) })
coroutine.resume(co)
--- coroutine.close takes a coroutine | error script_failed coroutine expected
coroutine.close(1)
--- coroutine.close runs what closes variables | ok [true,1]
local n = 0
local co = coroutine.create(function()
  local x <close> = setmetatable({}, { __close = function() n = n + 1 end })
  coroutine.yield()
end)
coroutine.resume(co)
return coroutine.close(co), n
