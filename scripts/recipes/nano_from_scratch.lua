-- nano-dlm's objective and schedule (github.com/jaisidhsingh/nano-dlm) on the sums of arithmetic.lua: discrete times 1 to T,
-- cosine schedule, its own weights; decoded by the ancestral sampler with the same schedule.
--   dllm run scripts/recipes/nano_from_scratch.lua [--digits 5] [--steps 2000] [--out runs/nano_from_scratch] [--tiny]
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local how = { name = "nano_from_scratch", objective = "nano" }
function how.prepare(s)
  how.decoder = { policy = "ancestral", schedule = "nano_cosine", steps = 2 * (s.digits + 1), temperature = 0.0 }
end
assert(loadfile(here .. "arithmetic.lua"))(how)
