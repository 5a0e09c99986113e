-- Block diffusion (Arriola et al. 2025, BD3-LMs) on the sums of arithmetic.lua: rows of blocks, each denoised with the blocks
-- before it as context, and decoded block after block with an exact cache.
--   dllm run scripts/recipes/bd3lm.lua [--digits 5] [--steps 2000] [--out runs/bd3lm] [--tiny]
-- A block is as long as an answer: a row of 3 (digits + 1) characters is two blocks of prompt and one of answer.
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local how = { name = "bd3lm", objective = "bd3lm" }
function how.prepare(s)
  local block = s.digits + 1
  how.objective_options = { block_length = block, time_per = "block" }
  how.model = { attention = "block_causal", block_length = block }
  how.decoder = { policy = "bd3lm", block_length = block }
end
assert(loadfile(here .. "arithmetic.lua"))(how)
