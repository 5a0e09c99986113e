JSON from scripts has limits of depth and of values.

--- deep arrays | error invalid_argument deeper than 64
return dllm.json.decode(string.rep("[", 200000))
--- deep closed arrays | error invalid_argument deeper than 64
return dllm.json.decode(string.rep("[", 200000) .. string.rep("]", 200000))
--- deep objects | error invalid_argument deeper than 64
return dllm.json.decode(string.rep('{"a":', 200000))
--- 64 levels are fine | ok ["table"]
return type(dllm.json.decode(string.rep("[", 64) .. string.rep("]", 64)))
--- 65 are not | error invalid_argument deeper than 64
return type(dllm.json.decode(string.rep("[", 65) .. string.rep("]", 65)))
--- the bomb of shared tables | error invalid_argument more than 4194304 values | steps=50000000
local t = {}
for i = 1, 40 do t = { t, t } end
return dllm.json.encode(t)
--- the bomb as a result | error invalid_argument more than 4194304 values | steps=50000000
local t = {}
for i = 1, 40 do t = { t, t } end
return t
--- the bomb as options | error invalid_argument more than 4194304 values | steps=50000000
local t = {}
for i = 1, 40 do t = { t, t } end
return dllm.engine(t)
--- the bomb as a row | error invalid_argument more than 4194304 values | steps=50000000
local t = {}
for i = 1, 40 do t = { t, t } end
return dllm.dataset_from { t }
--- the bomb counts steps | steps | steps=1000000
local t = {}
for i = 1, 40 do t = { t, t } end
return dllm.json.encode(t)
--- the bomb can be cancelled | cancel
local t = {}
for i = 1, 18 do t = { t, t } end
while true do dllm.json.encode(t) end
--- the bomb of texts | error invalid_argument bytes | steps=50000000
local x = string.rep("x", 1000000)
local t = {}
for i = 1, 1000 do t[i] = x end
return dllm.json.encode(t)
--- many values | error invalid_argument more than 4194304 values | memory=0 steps=50000000
return dllm.json.decode("[" .. string.rep("1,", 5000000) .. "1]")
--- decode can be cancelled | cancel
local text = "[" .. string.rep("1,", 500000) .. "1]"
while true do dllm.json.decode(text) end
--- a table in itself | error invalid_argument deeper than 64
local t = {}
t.t = t
return dllm.json.encode(t)
--- no JSON | error invalid_argument not valid JSON near byte
return dllm.json.decode("{]")
--- functions | error invalid_argument a function has no JSON form
return print
--- objects | error invalid_argument a userdata has no JSON form
return dllm.engine()
--- both ways | ok [[1,2.5,"x",true],{},"[1,2]","{}","\"\\u0001\""]
local back = dllm.json.decode('{"a": [1, 2.5, "x", true], "b": {}}')
return back.a, back.b, dllm.json.encode { 1, 2 }, dllm.json.encode {}, dllm.json.encode "\1"
--- options that are no keys | error not_found
return dllm.engine { [string.rep("x", 1000)] = 1 }
--- a text without its end | error resource_exhausted
dllm.json.decode('"' .. ("a"):rep(8 << 20))
