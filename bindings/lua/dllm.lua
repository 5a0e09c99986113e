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

-- Cancels and watches a long call: see dllm.with_task. options: deadline in milliseconds from now.
local task = raw.class_task
function dllm.task(options)
  raw.check_names("dllm.task", options, {"deadline"})
  local made = raw.task_new()
  if options and options.deadline ~= nil then made:set_deadline(options.deadline) end
  return made
end
function task:cancel() raw.task_cancel(self) end
function task:cancelled() return raw.task_is_cancelled(self) ~= 0 end
-- milliseconds from now; nil removes the deadline.
function task:set_deadline(milliseconds)
  if milliseconds == nil then return raw.task_set_deadline(self, -1) end
  raw.check_number(milliseconds, "a deadline is a number of milliseconds or nil")
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
