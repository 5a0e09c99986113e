-- The C++ headers (include/dllm/dllm.hpp and cpp/): each compiles alone and twice, at the warnings users may have on,
-- with every compiler that is here; and every function of the manifest is used in them or listed below with a reason.
--   cpp_headers.lua ROOT CXX
local tap = require "tap"
local files = require "files"
local json = require "json"

local root, cxx = arg[1], arg[2]

-- Functions that the C++ headers leave out, and why.
local left_out = {
  dllm_checkpoint_check = "for dllm verify; Checkpoint::verify names the first bad file",
  dllm_checkpoint_latest = "dllm_checkpoint_latest_task with a task of NULL is the same",
  dllm_checkpoint_open = "as dllm_checkpoint_latest",
  dllm_error_code = "the status that a call returns is the same",
  dllm_tokenizer_load = "as dllm_checkpoint_latest",
}

local headers = files.list(root .. "/include", "dllm", {"hpp"})
local text = {}
for _, name in ipairs(headers) do text[#text + 1] = files.read(root .. "/include/" .. name) end
text = table.concat(text)

local known = {}
for _, fn in ipairs(json.decode(files.read(root .. "/abi/manifest.json")).functions) do
  known[fn.name] = true
  local used = text:find("%f[%w_]" .. fn.name .. "%f[^%w_]") ~= nil
  if left_out[fn.name] then
    tap.ok(not used, fn.name .. " is left out: " .. left_out[fn.name], "it is used: take it off the list")
  else
    tap.ok(used, fn.name .. " is in the C++ headers", "use it in include/dllm/cpp or list it here with a reason")
  end
end
for name in pairs(left_out) do tap.ok(known[name], name .. " exists", "it is not in the manifest") end

-- Every handle type has a release, so that an owner cannot forget one.
for _, name in ipairs(json.decode(files.read(root .. "/abi/manifest.json")).types) do
  if name ~= "event" then -- events belong to the library
    tap.ok(text:find("void operator()(dllm_" .. name .. "* handle)", 1, true), "Release has dllm_" .. name)
  end
end

local umbrella = files.read(root .. "/include/dllm/dllm.hpp")
local scratch = files.lines_of("mktemp -d")[1]
local warnings = " -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror -fsyntax-only "
local compilers, seen = {}, {}
for _, compiler in ipairs({cxx, "g++", "clang++"}) do
  local version, ok = files.lines_of(compiler .. " -dumpversion --version 2>/dev/null")
  local which = table.concat(version, "\n"):gsub("^%S*g?c?[+c][+c]%S*", "")
  if not ok then
    print("# " .. compiler .. " is not here")
  elseif not seen[which] then
    compilers[#compilers + 1], seen[which] = compiler, true
  end
end
local function compiles(compiler, name, mode)
  local path = scratch .. "/unit.cpp"
  files.write(path, ('#include "%s"\n'):format(name):rep(2) .. "int dllm_unit_ends_here();\n")
  local command = compiler .. warnings .. mode .. " -I" .. files.quote(root .. "/include") .. " " .. path
  local out, ok = files.lines_of(command .. " 2>&1")
  tap.ok(ok, name .. " with " .. compiler .. " " .. mode, table.concat(out, "\n"))
end
for _, compiler in ipairs(compilers) do
  for _, name in ipairs(headers) do compiles(compiler, name, "") end
  compiles(compiler, "dllm/dllm.hpp", "-fno-exceptions")
end
for _, name in ipairs(headers) do
  if name ~= "dllm/dllm.hpp" then
    tap.ok(umbrella:find('#include "' .. name .. '"', 1, true), "dllm.hpp includes " .. name)
  end
end
os.execute("rm -rf " .. files.quote(scratch))
tap.done()
