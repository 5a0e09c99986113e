-- Edit flows (Havasi et al. 2025) on the sums of arithmetic.lua, by insertions alone: training starts from the question, and
-- the digits of the answer are inserted behind it; their number is not given.
--   dllm run scripts/recipes/editflow.lua [--digits 5] [--steps 2000] [--order left] [--max_weight 1] [--out runs/editflow] [--tiny]
-- --order any is the flow as published, where a place has to name all missing digits at once; it learns far slower. All times
-- count alike (max_weight 1): with the weight of the flow the few rows near the end outweigh the others.
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local how = { name = "editflow", objective = "editflow", heads = "edit", inserts = true,
  settings = { order = "left", max_weight = 1, lr = 1.5e-3 } } -- 3e-3 left a seed of three without carries
function how.prepare(s)
  how.objective_options = { start = "empty", insert_order = s.order, max_weight = s.max_weight, time_sampling = "low_discrepancy" }
  how.decoder = { policy = "editflow", steps = 8 * (s.digits + 1), finish_steps = 2 * (s.digits + 1), max_length = 4 * (s.digits + 1) }
end
assert(loadfile(here .. "arithmetic.lua"))(how)
