-- Train and decode diffusion language models, in a program of PUC Lua 5.4 or LuaJIT.
--
-- The same names as scripts inside the library have (scripts/lib/dllm.lua, here dllm/layer.lua), over dllm/raw.lua.
local raw = require "dllm.raw"
if rawget(_G, "jit") then package.preload["dllm.random"] = function() return require "dllm.random_jit" end end
local dllm = require "dllm.layer"

dllm.raw = raw
dllm.CONTINUE, dllm.STOP = raw.CONTINUE, raw.STOP
dllm.hub = require "dllm.hub"
dllm.pull = dllm.hub.pull
require "dllm.streams"(raw.class_generator)

local names, load = require "dllm.names", dllm.load
---@param path string a model folder, a GGUF file, a run, a checkpoint or the name of a model in the cache
---@param values? dllm.LoadSettings
---@param on? dllm.Engine|dllm.EngineSettings nil: an engine that all models share
---@return dllm.Generator
function dllm.load(path, values, on)
  names.check_load(dllm, values)
  return load(path, values, on)
end

-- Cancels and watches a long call: see dllm.with_task. options: deadline in milliseconds from now.
local task = raw.class_task
function dllm.task(options)
  local made = raw.task_new()
  if options and options.deadline then made:set_deadline(options.deadline) end
  return made
end
function task:cancel() raw.task_cancel(self) end
function task:cancelled() return raw.task_is_cancelled(self) ~= 0 end
function task:set_deadline(milliseconds)
  raw.task_set_deadline(self, milliseconds and math.max(0, milliseconds) or -1)
end
-- done, total of the running call; total 0: not known yet.
function task:progress() return raw.task_progress(self) end

-- Calls fn; every long call that it makes can be cancelled by the task, from a callback or by its deadline.
function dllm.with_task(made, fn, ...)
  local before = raw.task
  raw.task = made
  local function leave(ok, ...)
    raw.task = before
    if not ok then error((...), 0) end
    return ...
  end
  return leave(pcall(fn, ...))
end

return dllm
