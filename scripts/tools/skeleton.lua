-- A library with the types and symbols of an interface and no code, for tools that compare libraries (abidiff), and a
-- header, for clients of a release.
--   skeleton.lua ROOT RELEASE FOLDER     of abi/frozen/RELEASE.txt: FOLDER/dllm/dllm.h, FOLDER/skeleton.c, FOLDER/skeleton.map
--   skeleton.lua ROOT today FOLDER       of include/dllm and abi/manifest.json: FOLDER/skeleton.c; the map is abi/dllm.map
-- RELEASE may be the path of a file in that form.
local files = require "files"
local json = require "json"

local function split(line) return line:match "^(.-)%s*(dllm_[%l%d_]+)%((.*)%)$" end

-- {result, name, types} of "dllm_status dllm_batch_new(dllm_batch **, dllm_error *)".
local function function_of(line)
  local result, name, list = split(line)
  local types = {}
  for kind in (list .. ","):gmatch "%s*(.-)%s*," do
    if kind ~= "" then types[#types + 1] = kind end
  end
  return {result = result, name = name, types = types}
end

local function definition(fn)
  local params = {}
  for i, kind in ipairs(fn.types) do params[i] = kind .. " p" .. i end
  return string.format("%s %s(%s) { %s}", fn.result, fn.name, #params > 0 and table.concat(params, ", ") or "void",
                       fn.result == "void" and "" or "return 0; ")
end

local function read_release(path)
  local release = {constants = {}, typedefs = {}, functions = {}, handles = {}}
  for line in files.read(path):gmatch "[^\n]+" do
    if line:match "^#" then
      goto continue
    elseif line:match "^typedef" then
      release.typedefs[#release.typedefs + 1] = line .. ";"
    elseif line:match " = " then
      release.constants[#release.constants + 1] = "enum { " .. line .. " };"
    else
      release.functions[#release.functions + 1] = function_of(line)
    end
    for handle in line:gmatch "(dllm_%l+) %*" do release.handles[handle] = true end
    ::continue::
  end
  return release
end

local function header(release)
  local lines = {"#ifndef DLLM_FROZEN_H", "#define DLLM_FROZEN_H", "#include <stdint.h>", "#ifdef __cplusplus",
                 'extern "C" {', "#endif"}
  local handles = {}
  for handle in pairs(release.handles) do handles[#handles + 1] = handle end
  table.sort(handles)
  for _, handle in ipairs(handles) do lines[#lines + 1] = string.format("typedef struct %s %s;", handle, handle) end
  table.move(release.typedefs, 1, #release.typedefs, #lines + 1, lines)
  table.move(release.constants, 1, #release.constants, #lines + 1, lines)
  for _, fn in ipairs(release.functions) do
    local types = #fn.types > 0 and table.concat(fn.types, ", ") or "void"
    lines[#lines + 1] = string.format("%s %s(%s);", fn.result, fn.name, types)
  end
  return table.concat(lines, "\n") .. "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"
end

local function functions_of_today(root)
  local list = {}
  for _, fn in ipairs(json.decode(files.read(root .. "/abi/manifest.json")).functions) do
    local types = {}
    for i, param in ipairs(fn.params) do types[i] = param.c end
    list[#list + 1] = {result = fn.returns.c, name = fn.name, types = types}
  end
  return list
end

local root, name, folder = arg[1], arg[2], arg[3]
local functions
if name == "today" then
  functions = functions_of_today(root)
else
  local release = read_release(name:match "/" and name or root .. "/abi/frozen/" .. name .. ".txt")
  functions = release.functions
  os.execute("mkdir -p " .. files.quote(folder .. "/dllm"))
  files.write(folder .. "/dllm/dllm.h", header(release))
  local symbols = {}
  for i, fn in ipairs(functions) do symbols[i] = fn.name .. ";" end
  files.write(folder .. "/skeleton.map", "DLLM_1 { global: " .. table.concat(symbols, " ") .. " local: *; };\n")
end
local bodies = {"#include <dllm/dllm.h>"}
for _, fn in ipairs(functions) do bodies[#bodies + 1] = definition(fn) end
files.write(folder .. "/skeleton.c", table.concat(bodies, "\n") .. "\n")
