Endless work of the language itself.

--- empty loop | cancel
while true do end
--- empty loop at its step limit | steps
while true do end
--- endless recursion ends by itself | error resource_exhausted
local function f() return 1 + f() end
f()
--- endless tail calls | cancel
local function f() return f() end
f()
--- goto | cancel
::again:: goto again
--- pcall around an endless loop | cancel
while true do pcall(function() while true do end end) end
--- pcall in pcall in pcall | cancel
local function nest(depth)
  while true do
    if depth == 0 then while true do end end
    pcall(nest, depth - 1)
  end
end
nest(50)
--- pcall that catches the step limit | steps
while true do pcall(function() while true do end end) end
--- a script that returns after it caught the end | cancel
pcall(function() while true do end end)
return "went on"
--- xpcall with an endless handler | cancel
xpcall(function() while true do end end, function() while true do end end)
--- xpcall with an endless handler of a plain error | cancel
xpcall(error, function() while true do end end)
--- xpcall whose handler raises for ever | any
xpcall(error, function() error "again" end)
return 1
--- a handler that calls pcall for ever | cancel
xpcall(function() while true do end end, function() while true do pcall(error) end end)
--- error with an endless __tostring | cancel
error(setmetatable({}, { __tostring = function() while true do end end }))
--- __index chain | cancel
local t = setmetatable({}, { __index = function(t, k) return t[k + 1 > 100 and 1 or k + 1] end })
while true do pcall(function() return t[1] end) end
--- __close that never ends | cancel
local x <close> = setmetatable({}, { __close = function() while true do end end })
--- __close after a cancel does not run on | cancel
local x <close> = setmetatable({}, { __close = function() while true do end end })
while true do end
--- many __close after a cancel | cancel
local function open(depth)
  local x <close> = setmetatable({}, { __close = function() while true do end end })
  if depth > 0 then open(depth - 1) end
  while true do end
end
open(100)
--- comparison metamethods | cancel
local mt = { __lt = function() while true do end end }
return setmetatable({}, mt) < setmetatable({}, mt)
--- concat metamethod | cancel
local mt = { __concat = function(a, b) while true do end end }
return setmetatable({}, mt) .. "x"
--- for with an endless iterator | cancel
for _ in function() return 1 end do end
--- next over an empty big table | cancel
local t = {}
for i = 1, 1000000 do t[i] = i end
for i = 1, 1000000 do t[i] = nil end
while true do next(t) end
--- steps of ten coroutines are counted together | steps
local all = {}
for i = 1, 10 do all[i] = coroutine.wrap(function() while true do for j = 1, 900 do end coroutine.yield() end end) end
while true do for _, f in ipairs(all) do f() end end
--- tostring of a table that prints itself for ever | cancel
tostring(setmetatable({}, { __tostring = function() while true do end end }))
