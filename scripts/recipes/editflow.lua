-- Edit flows (Havasi et al. 2025) on the sums of arithmetic.lua, by insertions alone: training starts from the question, and
-- the digits of the answer are inserted behind it; their number is not given.
--   dllm run scripts/recipes/editflow.lua [--digits 5] [--steps 2000] [--out runs/editflow] [--tiny]
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local how = { name = "editflow", objective = "editflow", objective_options = { start = "empty" }, heads = "edit", inserts = true }
function how.prepare(s)
  how.decoder = { policy = "editflow", steps = 8 * (s.digits + 1), max_length = 4 * (s.digits + 1) }
end
assert(loadfile(here .. "arithmetic.lua"))(how)
