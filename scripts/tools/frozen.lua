-- The interface of a release stays: what abi/frozen/<release>.txt lists must be in abi/manifest.json with the same types.
--   frozen.lua ROOT            compares every frozen release with the manifest
--   frozen.lua ROOT RELEASE    writes the stable functions and constants of today as that release, once
-- A file has a line for a function, `dllm_status dllm_batch_new(dllm_batch **, dllm_error *)`, a constant, `DLLM_OK = 0`, and
-- a type that is no handle, `typedef int32_t dllm_status`; and, not compared, `# released DAY` and
-- `# deprecated DAY: dllm_x, use dllm_y`. skeleton.lua makes a header and a library of it.
local files = require "files"
local json = require "json"

local root, release = arg[1] or ".", arg[2]
local manifest = json.decode(files.read(root .. "/abi/manifest.json"))

local function typedefs(lines)
  for _, path in ipairs(files.list(root, "include/dllm", {"h"})) do
    for typedef in files.read(root .. "/" .. path):gmatch "\n(typedef [^;]-);" do
      if not typedef:match "^typedef struct" then lines[#lines + 1] = typedef:gsub("%s+", " ") end
    end
  end
end

local function lines_of_today()
  local lines = {}
  for _, constant in ipairs(manifest.constants) do
    lines[#lines + 1] = string.format("%s = %s", constant.name, constant.value)
  end
  for _, fn in ipairs(manifest.functions) do
    local types = {}
    for i, param in ipairs(fn.params) do types[i] = param.c end
    if fn.state == "stable" then
      lines[#lines + 1] = string.format("%s %s(%s)", fn.returns.c, fn.name, table.concat(types, ", "))
    end
  end
  typedefs(lines)
  return lines
end

local function deprecations()
  local lines = {}
  for _, fn in ipairs(manifest.functions) do
    local day, successor = (fn.deprecated or ""):match "^(%d+-%d+-%d+): (.*)$"
    if day then lines[#lines + 1] = string.format("# deprecated %s: %s, %s", day, fn.name, successor) end
  end
  return lines
end

local function name_of(line)
  return line:match "^typedef .-%*(dllm_[%l_]+)%)%(" or line:match "^typedef .- (dllm_[%l_]+)$" or
         line:match "(dllmx?_[%w_]+)%(" or line:match "^[%u%d_]+"
end

local function fail(message)
  io.stderr:write("frozen: ", message, "\n")
  os.exit(1)
end

local folder = root .. "/abi/frozen"
local today = lines_of_today()
if release then
  local path = folder .. "/" .. release .. ".txt"
  if files.exists(path) then fail(path .. " is there already; a release is frozen once") end
  os.execute("mkdir -p " .. files.quote(folder))
  local notes = deprecations()
  table.insert(notes, 1, os.date "!# released %Y-%m-%d")
  files.write(path, table.concat(notes, "\n") .. "\n" .. table.concat(today, "\n") .. "\n")
  print(#today .. " lines in " .. path)
  return
end

local now, by_name, problems, count = {}, {}, {}, 0
for _, line in ipairs(today) do
  now[line] = true
  by_name[name_of(line)] = line
end
for _, path in ipairs(files.list(root, "abi/frozen", {"txt"})) do
  for line in files.read(root .. "/" .. path):gmatch "%f[^\n\0][^#\n][^\n]*" do
    count = count + 1
    if not now[line] then
      problems[#problems + 1] = string.format("%s: %s\n  today: %s", path, line, by_name[name_of(line)] or "not there")
    end
  end
end
if #problems > 0 then
  fail("the interface of a release has changed; a new function gets a new name, an old one stays\n" .. table.concat(problems, "\n"))
end
print("frozen: " .. count .. " lines of releases are as they were")
