-- One training of bench/step/mesh_table.py: twenty losses and the most memory that the engine has held, as a line of JSON.
--   dllm run mesh_run.lua CONFIG.json ENGINE.json
local dllm = require "dllm"

local ROWS, LENGTH, STEPS = 8, 64, 20

local function read_json(path)
  local file = assert(io.open(path))
  local value = dllm.json.decode(file:read "a")
  file:close()
  return value
end

local config = read_json(arg[1])
local engine = dllm.engine(read_json(arg[2]))
local model = dllm.new_model(config, { seed = 1 }, engine)
local trainer = dllm.trainer(model, dllm.objective "mdlm", { lr = 3e-3, seed = 7, warmup = 2 })

-- One text of period 10, cut at other places in every row and step.
local function batch_of(step)
  local ids = {}
  for row = 0, ROWS - 1 do
    local start = (step * ROWS + row) * 7
    for at = 0, LENGTH - 1 do ids[#ids + 1] = (start + at) % 10 * 2 + 3 end
  end
  return dllm.batch { ids = { "i32", { ROWS, LENGTH }, ids } }
end

local losses = {}
for step = 1, STEPS do losses[step] = trainer:step(batch_of(step)) end
local cpu = engine:describe().kind ~= "pjrt"
print(dllm.json.encode { losses = losses, ranks = engine:get "ranks", peak = cpu and engine:get "memory_peak" or 0 })
