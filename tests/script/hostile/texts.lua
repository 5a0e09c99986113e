Functions of string, utf8 and os whose cost the script chooses.

--- rep of nothing | ok [""]
return string.rep("", 1 << 62)
--- rep of a byte | error script_failed too large
return string.rep("x", 1 << 40)
--- rep with a separator | error script_failed too large
return string.rep("", 1 << 40, "ab")
--- rep for ever | cancel
while true do string.rep("x", 1 << 24) end
--- rep counts steps | steps
while true do string.rep("x", 1 << 24) end
--- what rep gives | ok ["ababab","a,a,a","","x"]
return ("ab"):rep(3), ("a"):rep(3, ","), ("a"):rep(-1), ("x"):rep(1)
--- doubling a text | error resource_exhausted
local x = "x"
while true do x = x .. x end
--- comparing long texts | cancel | memory=268435456
local a = string.rep("x", 30000000)
local b = string.rep("x", 15000000) .. string.rep("x", 15000000)
while true do local c = a == b end
--- concatenating long texts | cancel | memory=268435456
local a = string.rep("x", 15000000)
while true do local c = a .. a end
--- find backtracks | cancel
string.find(string.rep("a", 100000), string.rep("a-", 30) .. "b")
--- find backtracks over its step limit | steps
string.find(string.rep("a", 100000), string.rep("a-", 30) .. "b")
--- match backtracks | cancel
string.match(string.rep("a", 100000), ".-.-.-.-.-.-b")
--- gmatch backtracks | cancel
for _ in string.gmatch(string.rep("a", 100000), ".-.-.-.-.-.-b") do end
--- gsub backtracks | cancel
string.gsub(string.rep("a", 100000), ".-.-.-.-.-.-b", "")
--- greedy repeats | cancel
string.find(string.rep("a", 30000), string.rep("a*", 100) .. "b")
--- balance at every place | cancel
string.find(string.rep("(", 10000000), "%b()")
--- a set at every place | cancel
string.find(string.rep("a", 20000000), "[" .. string.rep("bc", 1000) .. "]")
--- plain find of almost the same | cancel
string.find(string.rep("a", 20000000), string.rep("a", 1000000) .. "b", 1, true)
--- back references | cancel
string.find(string.rep("a", 1000000), "(.-)%1%1b")
--- gsub with an endless function | cancel
string.gsub("x", "x", function() while true do end end)
--- gsub that grows | error resource_exhausted
local x = string.rep("a", 1000000)
return (string.gsub(x, "a", x))
--- gsub with an empty pattern for ever | cancel
while true do string.gsub(string.rep("a", 1000000), "", "-") end
--- a pattern nested too deep | error script_failed pattern too complex
return string.find(string.rep("x", 1000), string.rep("x?", 1000) .. string.rep("x", 1000))
--- malformed patterns | ok ["malformed pattern (missing ']')","malformed pattern (ends with '%')","malformed pattern (missing arguments to '%b')","missing '[' after '%f' in pattern","invalid capture index %1","unfinished capture"]
local said = {}
for i, p in ipairs { "[a", "a%", "%b", "%fa", "%1", "(a", "a)" } do
  local _, text = pcall(string.find, "aaa", p)
  said[i] = text
end
return table.unpack(said)
--- too many captures | error script_failed too many captures
return string.find("x", string.rep("()", 33))
--- format with a huge width | error script_failed
return string.format("%1000000000d", 1)
--- a huge format | error script_failed a format has
return string.format(string.rep("%s", 1000000), table.unpack({}, 1, 1000))
--- format for ever | cancel
local x = string.rep("x", 1000000)
while true do string.format("%q%s%s", x, x, x) end
--- pack of much | error script_failed
return string.pack(string.rep("i8", 100000), 1)
--- pack pads much | any
return #string.pack("c2000000000", "x")
--- unpack outside | error script_failed data string too short
return string.unpack("i8", "x", 1)
--- upper for ever | cancel
local x = string.rep("x", 10000000)
while true do x:upper() end
--- reverse for ever | cancel
local x = string.rep("x", 10000000)
while true do x:reverse() end
--- utf8 for ever | cancel
local x = string.rep("\u{20ac}", 1000000)
while true do utf8.len(x) utf8.offset(x, 900000) end
--- date with a huge format | error script_failed a format has
return os.date(string.rep("%c", 1000000))
--- byte of everything | error script_failed
return #{ string.byte(string.rep("x", 20000000), 1, -1) }
--- tonumber of much | ok [null]
return tonumber(string.rep("1", 20000000) .. "x")
--- bytecode | ok [true,true]
return load("\27Lua") == nil, string.dump == nil
--- a long text in load | cancel
while true do load(string.rep("x = 1 ", 1000000)) end
--- load counts steps | steps
while true do load(string.rep("x = 1 ", 1000000)) end
--- load of deep brackets | ok [true]
return load("return " .. string.rep("(", 10000) .. string.rep(")", 10000)) == nil
--- load with an endless reader | cancel
load(function() return " " end)
--- load with a reader that never returns | cancel
load(function() while true do end end)
--- load catches the end | cancel
load(function() while true do end end)
return "went on"
--- load catches the step limit | steps
load(function() while true do end end)
return "went on"
--- what load gives | ok [3,4,"x","n:1: unexpected symbol near '='"]
local pieces = { "return ", "1 + ", "2" }
local i = 0
local f = load(function() i = i + 1 return pieces[i] end)
return f(), load("return y", "n", "t", { y = 4 })(), load("return ...")("x"), select(2, load("=", "=n"))
--- comparing long texts of zeros | cancel
local a = ("\0"):rep(24 << 20)
while true do local b = a < a end
--- texts are compared by their bytes | ok [true,true,false,true]
return "a\0b" < "a\0c", "a" < "a\0", "b" < "a\0", "Z" < "a" and "a" < "\xff"
