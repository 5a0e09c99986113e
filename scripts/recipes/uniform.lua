-- Uniform noise (Schiff et al. 2024, UDLM; Sahoo et al. 2025, Duo) on the sums of arithmetic.lua: tokens are replaced by any
-- token of the vocabulary instead of a mask, so every position may still change until the last step.
--   dllm run scripts/recipes/uniform.lua [--digits 5] [--steps 2000] [--out runs/uniform] [--tiny]
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local how = { name = "uniform", objective = "uniform" }
function how.prepare(s) how.decoder = { policy = "uniform", steps = 4 * (s.digits + 1) } end
assert(loadfile(here .. "arithmetic.lua"))(how)
