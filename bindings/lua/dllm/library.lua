-- Finds libdllm, checks its ABI version, and binds every function.
local made = require "dllm.functions"

local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local NAMES = {"libdllm.so.1", "libdllm.so", "libdllm.dylib"}

local function exists(path)
  local file = io.open(path, "rb")
  return file ~= nil and file:close()
end

-- DLLM_LIBRARY alone when it is set, else the folder of this file, a checkout after scripts/build, then the system.
local function candidates()
  local named = os.getenv "DLLM_LIBRARY"
  if named and named ~= "" then return {named} end
  local found = {}
  for _, near in ipairs {folder .. "/", folder .. "/../../../build/release/lib/"} do
    for _, name in ipairs(NAMES) do
      if exists(near .. name) then found[#found + 1] = near .. name end
    end
  end
  for _, name in ipairs(NAMES) do found[#found + 1] = name end
  return found
end

-- {symbol = {call, address}} of every function; an error names what does not fit.
local function bind(host, library, path)
  local bound, missing = {}, {}
  for _, fn in ipairs(made.functions) do
    local call, address = host.bind(library, fn)
    if call then
      bound[fn[1]] = {call = call, address = address}
    else
      missing[#missing + 1] = fn[1]
    end
  end
  if not bound.dllm_abi_version then error(path .. " is not a libdllm: it has no dllm_abi_version", 0) end
  local abi = bound.dllm_abi_version.call()
  if abi ~= made.abi then
    error(path .. " has ABI " .. abi .. ", this package ABI " .. made.abi .. "; install versions that belong together", 0)
  end
  if missing[1] then error(path .. " is older than this package, it lacks: " .. table.concat(missing, ", "), 0) end
  return bound
end

return function(host)
  local tried = {}
  for _, path in ipairs(candidates()) do
    local library, why = host.open(path, made.cdef)
    if library then return bind(host, library, path) end
    tried[#tried + 1] = "  " .. path .. ": " .. tostring(why)
  end
  error("cannot load libdllm; tried\n" .. table.concat(tried, "\n") .. "\nset DLLM_LIBRARY to the path of libdllm.so", 0)
end
