-- Each public header alone, twice, and all in both orders: C99 -pedantic and C++20.
--   headers.lua ROOT CC CXX
local tap = require "tap"
local files = require "files"

local root, cc, cxx = arg[1], arg[2], arg[3]
local scratch = files.lines_of("mktemp -d")[1]
local warnings = " -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -fsyntax-only "
local languages = {
  {name = "C99", command = cc .. " -x c -std=c99" .. warnings},
  {name = "C++20", command = cxx .. " -x c++ -std=c++20" ..
                             warnings:gsub("%-Wstrict%-prototypes ", "")},
}

local function compiles(title, includes)
  local path = scratch .. "/unit.c"
  local lines = {}
  for i, name in ipairs(includes) do lines[i] = '#include "' .. name .. '"' end
  lines[#lines + 1] = "int dllm_unit_ends_here(void);\n"
  files.write(path, table.concat(lines, "\n"))
  for _, language in ipairs(languages) do
    local command = language.command .. "-I" .. files.quote(root .. "/include") .. " " .. path
    local out, ok = files.lines_of(command .. " 2>&1")
    tap.ok(ok, title .. " in " .. language.name, table.concat(out, "\n"))
  end
end

local headers = files.list(root .. "/include", "dllm", {"h"})
tap.ok(#headers > 20, #headers .. " public headers")
for _, name in ipairs(headers) do compiles(name .. " alone and twice", {name, name}) end

compiles("all headers in order", headers)
local backwards = {}
for i = #headers, 1, -1 do backwards[#backwards + 1] = headers[i] end
compiles("all headers backwards", backwards)

-- The umbrella must not forget one.
local umbrella = files.read(root .. "/include/dllm/dllm.h")
for _, name in ipairs(headers) do
  if name ~= "dllm/dllm.h" then
    tap.ok(umbrella:find('#include "' .. name .. '"', 1, true), "dllm.h includes " .. name)
  end
end
os.execute("rm -rf " .. files.quote(scratch))
tap.done()
