-- The exported dynamic symbols are exactly those of the headers.   symbols.lua LIBRARY ROOT
local tap = require "tap"
local files = require "files"
local json = require "json"

local library, root = arg[1], arg[2]
local data = json.decode(files.read(root .. "/abi/manifest.json"))
local expected = {}
for _, fn in ipairs(data.functions) do expected[fn.name] = true end

local exported, count, foreign = {}, 0, {}
local lines, read = files.lines_of("nm -D --defined-only " .. files.quote(library))
tap.ok(read and #lines > 0, "nm reads the library", library)
for _, line in ipairs(lines) do
  local kind, name = line:match("^%x* ?%s*(%a) ([^@%s]+)")
  if kind == "T" and expected[name] then
    exported[name] = true
    count = count + 1
  elseif not (kind == "A" and name:match("^DLLM_")) then  -- a version node of dllm.map
    foreign[#foreign + 1] = line
  end
end

local missing = {}
for name in pairs(expected) do
  if not exported[name] then missing[#missing + 1] = name end
end
table.sort(missing)
tap.ok(#missing == 0, count .. " functions are exported", "missing: " .. table.concat(missing, " "))
tap.ok(#foreign == 0, "nothing else is exported", table.concat(foreign, "\n"))

local map = files.read(root .. "/abi/dllm.map")
local in_map, stray = {}, {}
for name in map:gmatch("\n    (dllm[%w_]*);") do
  in_map[name] = true
  if not expected[name] then stray[#stray + 1] = name end
end
for name in pairs(expected) do
  if not in_map[name] then stray[#stray + 1] = name end
end
tap.ok(#stray == 0, "dllm.map lists the same functions", table.concat(stray, " "))
tap.ok(map:match("local:%s*%*;") ~= nil, "dllm.map hides all else")
tap.done()
