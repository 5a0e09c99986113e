Functions of table that walk to the end that a length gives.

--- concat with a huge length | cancel
table.concat(setmetatable({}, { __len = function() return 1 << 62 end, __index = function() return "" end }))
--- concat over a huge range | error script_failed invalid value
return table.concat({}, "", 1, 1 << 62)
--- concat of numbers for ever | cancel
table.concat(setmetatable({}, { __index = function() return 1 end }), "", 1, 1 << 62)
--- concat that grows | error resource_exhausted
local x = string.rep("x", 1000000)
return #table.concat(setmetatable({}, { __index = function() return x end }), "", 1, 1 << 30)
--- insert with a huge length | cancel
table.insert(setmetatable({}, { __len = function() return 1 << 62 end }), 1, "x")
--- insert at the step limit | steps
table.insert(setmetatable({}, { __len = function() return 1 << 62 end }), 1, "x")
--- remove with a huge length | cancel
table.remove(setmetatable({}, { __len = function() return 1 << 62 end }), 1)
--- move of everything | cancel
table.move({}, 1, 1 << 62, 2)
--- move to another table | cancel
table.move({}, 1, 1 << 62, 1, {})
--- move wraps around | error script_failed destination wrap around
table.move({}, 1, 10, math.maxinteger)
--- unpack of everything | error script_failed too many results
table.unpack({}, 1, 1 << 62)
--- unpack of many | error script_failed
table.unpack({}, 1, 10000000)
--- unpack with wrapped ends | error script_failed too many results
table.unpack({}, math.mininteger, math.maxinteger)
--- sort with a comparator that is never content | ok [true]
local t = {}
for i = 1, 1000 do t[i] = i end
table.sort(t, function() return true end)
return #t == 1000
--- sort with an endless comparator | cancel
table.sort({ 3, 2, 1 }, function() while true do end end)
--- sort of much | cancel
local t = {}
for i = 1, 400000 do t[i] = (i * 7919) % 400009 end
while true do table.sort(t) end
--- sort with a huge length | error script_failed
table.sort(setmetatable({}, { __len = function() return (1 << 31) - 2 end }))
--- sort with an array too big | error script_failed array too big
table.sort(setmetatable({}, { __len = function() return 1 << 62 end }))
--- sort sorts | ok ["1 2 3 5 8 9","9 8 5 3 2 1","a b c",true]
local up, down, words, long = { 5, 3, 9, 1, 8, 2 }, { 5, 3, 9, 1, 8, 2 }, { "c", "a", "b" }, {}
table.sort(up)
table.sort(down, function(a, b) return a > b end)
table.sort(words)
for i = 1, 2000 do long[i] = (i * 7919) % 2003 end
table.sort(long)
local sorted = true
for i = 2, #long do sorted = sorted and long[i - 1] <= long[i] end
return table.concat(up, " "), table.concat(down, " "), table.concat(words, " "), sorted
--- insert, remove, move, concat, unpack work | ok ["a x b","a","x b","b,a,x,b",2,3]
local t = { "a", "b" }
table.insert(t, 2, "x")
local all = table.concat(t, " ")
local first = table.remove(t, 1)
local rest = table.concat(t, " ")
local moved = table.move({ "b", "a", "x", "b" }, 1, 4, 1, {})
return all, first, rest, table.concat(moved, ","), table.unpack({ 1, 2, 3 }, 2, 3)
--- a table that grows | error resource_exhausted
local t = {}
while true do t[#t + 1] = #t end
--- tables in tables | error resource_exhausted
local t = {}
while true do t = { t, {}, {} } end
--- a memory error that is caught is only one | ok [false,"went on"]
local ok = pcall(function() local t = {} while true do t[#t + 1] = {} end end)
return ok, "went on"
--- caught memory errors for ever | cancel
while true do pcall(function() local t = {} while true do t[#t + 1] = {} end end) end
--- arguments without end | cancel
local function f(...) return f(1, ...) end
return f()
--- a chain through a table with weak keys | cancel
local weak, keys, order, chain = setmetatable({}, { __mode = "k" }), {}, {}, {}
for i = 1, 60000 do keys[i] = {} weak[keys[i]] = true end
for key in pairs(weak) do order[#order + 1] = key end
local i, j = 1, #order
while i < j do chain[#chain + 1] = order[i] chain[#chain + 1] = order[j] i, j = i + 1, j - 1 end
root = chain[1]
for n = 1, #chain - 1 do weak[chain[n]] = chain[n + 1] end
keys, order, chain = nil, nil, nil
while true do local t = {} end
--- weak keys without a chain are collected | ok [1]
local weak, kept, count = setmetatable({}, { __mode = "k" }), {}, 0
weak[kept] = "x"
for i = 1, 200000 do weak[{}] = true end
for _ in pairs(weak) do count = count + 1 end
return weak[kept] == "x" and count < 200000 and 1
