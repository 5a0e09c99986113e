-- DMax's on-policy training (github.com/czg1225/DMax) on the sums of arithmetic.lua: blocks at high noise, the masks of some rows
-- replaced by the model's own predictions; decoded by soft parallel decoding, which may change a digit that it decided.
--   dllm run scripts/recipes/dmax_arithmetic.lua [--digits 5] [--steps 2000] [--from RUN] [--out runs/dmax_arithmetic] [--tiny]
-- --from: a run of bd3lm.lua with as many digits, as DMax itself starts from a trained model.
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local how = { name = "dmax_arithmetic", objective = "dmax" }
function how.prepare(s)
  local block = s.digits + 1
  how.objective_options = { block_length = block, noise_low = 0.5, noise_high = 1.0 }
  how.model = { attention = "block_causal", block_length = block }
  how.decoder = { policy = "spd", block_length = block }
end
assert(loadfile(here .. "arithmetic.lua"))(how)
