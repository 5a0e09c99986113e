-- Checks who includes whom against its table.   lua_tool layers.lua ROOT
local files = require "files"
local layers = {}

-- What a folder may include directly; what those may include, it may too. `include` is the public C
-- headers: lua and cli see nothing else, which proves that the ABI is enough. Noise below decode:
-- docs/decisions/0002.
layers.table = {
  base = {}, hub = {"base"}, tensor = {"base"}, graph = {"tensor"}, comm = {"base", "tensor"},
  cpu = {"graph", "comm", "tensor"}, pjrt = {"graph", "comm", "tensor"}, ckpt = {"tensor", "hub"},
  text = {"ckpt", "hub"}, runtime = {"graph"}, model = {"runtime", "graph", "text"}, noise = {"model", "text"},
  train = {"noise", "ckpt"}, decode = {"model", "text", "noise"},
  generate = {"decode"},
  lua = {"include"}, cli = {"include"}, include = {},
}
-- The whole of src, and the public headers whose functions it defines.
layers.table.abi = {"include", "hub", "cpu", "pjrt", "train", "generate", "lua"}

-- Headers without includes of the project, which lua and cli may share with the library: rules on words alone.
layers.shared = {["base/nearest.h"] = true}

local function closure(name, into)
  into = into or {}
  for _, lower in ipairs(layers.table[name]) do
    if not into[lower] then
      into[lower] = true
      closure(lower, into)
    end
  end
  return into
end

-- "src/model/config.cpp" -> "model"
local function folder_of(path)
  return path:match("^src/([%w_]+)/") or path:match("^(include)/") or path:match("^(abi)/")
end

-- "src/cli/commands/x.cpp", "../command.h" -> "src/cli/command.h"
local function resolve(path, spelled)
  local folder = path:match("^(.*)/[^/]*$")
  while spelled:match("^%.%./") do
    spelled, folder = spelled:sub(4), folder:match("^(.*)/[^/]*$") or ""
  end
  return folder .. "/" .. spelled
end

-- The folder that #include "..." means; nil for a file in the folder of the including one or a system header.
local function target_of(path, spelled)
  if spelled:match("^%.%./") then return folder_of(resolve(path, spelled)) or "outside" end
  if spelled:match("^dllm/") then return "include" end
  if spelled:match("^abi/") or spelled:match("^api/") then return "abi" end
  local first = spelled:match("^([%w_]+)/")
  return layers.table[first] and first
end

-- Complaints about one file's include lines.
function layers.check(path, text)
  local from = folder_of(path)
  local complaints, number = {}, 0
  if not layers.table[from] then
    return {path .. ": the folder " .. tostring(from) .. " is not in the table of layers"}
  end
  local allowed = closure(from)
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local spelled = line:match('^%s*#%s*include%s+"([^"]+)"')
    local to = spelled and target_of(path, spelled)
    if to and to ~= from and not allowed[to] and not layers.shared[spelled] then
      complaints[#complaints + 1] = string.format("%s:%d: %s may not include %s (%s)", path, number,
                                                  from, to, spelled)
    end
    local system = line:match("^%s*#%s*include%s+<([^>]+)>")
    if from == "include" and path:match("%.h$") and system and system ~= "stdint.h" then
      complaints[#complaints + 1] = path .. ":" .. number ..
                                    ": a public header may include stdint.h only"
    end
  end
  return complaints
end

local function main(root)
  local bad, count = 0, 0
  for _, folder in ipairs {"include", "src", "abi"} do
    for _, path in ipairs(files.list(root, folder, {"h", "hpp", "c", "cpp"})) do
      count = count + 1
      for _, text in ipairs(layers.check(path, files.read(root .. "/" .. path))) do
        bad = bad + 1
        io.stderr:write(text, "\n")
      end
    end
  end
  if bad > 0 then os.exit(1) end
  print(string.format("layers: %d files, every include is in the table", count))
end

if arg and arg[0] and arg[0]:match("layers%.lua$") then main(arg[1] or ".") end
return layers
