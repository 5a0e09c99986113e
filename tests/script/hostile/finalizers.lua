Finalizers run while memory is collected during a call, and not when the runner is released.

--- an endless finalizer | cancel
setmetatable({}, { __gc = function() while true do end end })
while true do local t = {} end
--- an endless finalizer at the release | ok ["kept"]
kept = setmetatable({}, { __gc = function() while true do end end })
return "kept"
--- a hundred endless finalizers at the release | ok []
for i = 1, 100 do _G[i] = setmetatable({}, { __gc = function() while true do end end }) end
--- finalizers that make finalizers | cancel
local function again() setmetatable({}, { __gc = again }) end
again()
while true do local t = {} end
--- a finalizer swapped after it was set | cancel
local mt = { __gc = function() end }
setmetatable({}, mt)
mt.__gc = function() while true do end end
while true do local t = {} end
--- a finalizer swapped, at the release | ok []
local mt = { __gc = function() end }
kept = setmetatable({}, mt)
mt.__gc = function() while true do pcall(function() while true do end end) end end
--- finalizers count steps | steps
setmetatable({}, { __gc = function() while true do end end })
while true do local t = {} end
--- errors in finalizers are no errors of the script | ok ["fine"]
setmetatable({}, { __gc = function() error "x" end })
for i = 1, 20000 do local t = { {}, {} } end
return "fine"
--- finalizers run, with their object | ok [true]
local ran = 0
for i = 1, 50 do setmetatable({ i }, { __gc = function(t) ran = ran + (t[1] > 0 and 1 or 0) end }) end
for i = 1, 200000 do local t = { {}, {} } end
return ran > 0
--- a finalizer that wakes its object | ok [true]
local mt
mt = { __gc = function(t) woken = t setmetatable(t, mt) end }
setmetatable({}, mt)
for i = 1, 200000 do local t = { {}, {} } end
return woken ~= nil
--- a finalizer that yields | ok ["fine"]
setmetatable({}, { __gc = function() coroutine.yield() end })
for i = 1, 200000 do local t = { {}, {} } end
return "fine"
--- protected metatables stay | error script_failed protected metatable
setmetatable(setmetatable({}, { __metatable = 1 }), {})
--- a finalizer that closes a variable without end | cancel
setmetatable({}, { __gc = function()
  local x <close> = setmetatable({}, { __close = function() while true do end end })
  while true do end
end })
while true do local t = {} end
--- calls that fail in a finalizer leave the error of the call under way | ok [{}]
local name, size, ran, bad = ("n"):rep(70), 200, false, {}
local _, first = pcall(dllm.options, name, {})
local want = first.message
for _ = 1, 10 do
  local text = ("L"):rep(size)
  ran = false
  setmetatable({}, { __gc = function() ran = true pcall(dllm.options, text, {}) end })
  local values = {}
  while not ran do
    local _, failure = pcall(dllm.options, name, values)
    if failure.message ~= want then bad[#bad + 1] = #failure.message end
  end
  size = size * 2 + 100
end
return bad
