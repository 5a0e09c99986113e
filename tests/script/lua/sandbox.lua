-- At the safe level nothing of the machine can be reached.
local dllm = require "dllm"
local failed = {}
local function check(condition, name) if not condition then failed[#failed + 1] = name end end

check(io == nil and debug == nil and dofile == nil and loadfile == nil, "io, debug, dofile, loadfile")
check(os.execute == nil and os.getenv == nil and os.remove == nil and os.exit == nil, "os")
check(package.loadlib == nil and package.cpath == "" and package.path == "", "package")
check(package.loaded["dllm.raw"] == nil, "the raw layer")
check(string.dump == nil and load("\27Lua") == nil, "bytecode")
check(not pcall(require, "socket"), "native modules")
check(getmetatable(dllm.engine()) == false, "metatables of handles")
if #failed > 0 then error("reachable: " .. table.concat(failed, "; "), 0) end
return "safe"
