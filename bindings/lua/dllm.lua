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

local schedule = dllm.schedule
function dllm.schedule(what, values)
  if type(what) == "table" then names.check(dllm, "dllm.schedule", what, {"t", "alpha", "dalpha", "weight"}) end
  if type(what) == "function" then names.check(dllm, "dllm.schedule", values, {"points"}) end
  return schedule(what, values)
end

local model = raw.class_model
local set_adapter_scale = model.set_adapter_scale
---@param scale number 0: the adapter is off
---@param name? string
function model:set_adapter_scale(scale, name)
  names.check_number(dllm, scale, "set_adapter_scale takes the scale, then the name: the scale is a number")
  set_adapter_scale(self, scale, name)
end

-- Cancels and watches a long call: see dllm.with_task. options: deadline in milliseconds from now.
local task = raw.class_task
function dllm.task(options)
  names.check(dllm, "dllm.task", options, {"deadline"})
  local made = raw.task_new()
  if options and options.deadline ~= nil then made:set_deadline(options.deadline) end
  return made
end
function task:cancel() raw.task_cancel(self) end
function task:cancelled() return raw.task_is_cancelled(self) ~= 0 end
-- milliseconds from now; nil removes the deadline.
function task:set_deadline(milliseconds)
  if milliseconds == nil then return raw.task_set_deadline(self, -1) end
  names.check_number(dllm, milliseconds, "a deadline is a number of milliseconds or nil")
  if milliseconds >= 2 ^ 53 then return raw.task_set_deadline(self, -1) end -- more than 200000 years
  raw.task_set_deadline(self, math.floor(math.max(0, milliseconds)))
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
