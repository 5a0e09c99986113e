-- A noise schedule is a function alpha(t): 1 at t = 0, 0 at t = 1, falling. It is sampled into a table.
local dllm = require "dllm"

local quadratic = dllm.schedule(function(t) return (1 - t) * (1 - t) end)
local alpha, dalpha, weight = quadratic:eval { 0.25, 0.5, 0.75 }
for i, t in ipairs { 0.25, 0.5, 0.75 } do
  print(string.format("t %.2f  kept %.3f  slope %.3f  weight %.3f", t, alpha[i], dalpha[i], weight[i]))
end
