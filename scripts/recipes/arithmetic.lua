-- Addition with carries: a masked diffusion model writes the digits of a sum, and every sum is checked exactly.
--   dllm run scripts/recipes/arithmetic.lua [--digits 5] [--steps 2000] [--out runs/arithmetic] [--from RUN] [--score RUN] [--tiny]
--   --decode_steps N: most steps of decoding, also of --score; --from RUN: training starts from the model of a run
--   dllm run scripts/recipes/arithmetic.lua --write sums.jsonl --count 200
-- The file of --write is for dllm eval, with the checker check_answer.lua:
--   dllm eval RUN sums.jsonl --task answers --checker scripts/recipes/check_answer.lua --length 6 --steps 6
local dllm = require "dllm"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local tasks = dofile(here .. "tasks.lua")

-- Other recipes train the same task another way: bd3lm.lua, dmax_arithmetic.lua, uniform.lua, editflow.lua,
-- nano_from_scratch.lua.
local how = type(...) == "table" and ... or { name = "arithmetic" }
local script = how.name .. ".lua"
local USAGE = "dllm run scripts/recipes/" .. script .. " --digits N [--steps N] [--out RUN] [--score RUN] [--write FILE] [--count N] [--tiny]"
local defaults = { digits = 5, out = "runs/" .. how.name, from = "", score = "", write = "", count = 500, steps = 2000, batch = 64, layers = 3,
  hidden = 96, lr = 3e-3, threads = 0, decode_steps = 0, seed = 1 }
for key, value in pairs(how.settings or {}) do defaults[key] = value end
local s = tasks.settings(defaults, { steps = 6, batch = 4, layers = 1, hidden = 32, count = 4 }, USAGE)
if not s then return end

if type(how.prepare) == "function" then how.prepare(s) end
local given = {}
for i = 1, 3 * s.digits + 3 do given[i] = i <= 2 * s.digits + 2 and 1 or 0 end

-- Digits one by one, so that long numbers are exact and every length of carries is frequent: half of the places after a
-- carry hold digits that add up to nine.
local function sum()
  local a, b, c, carry, carries = {}, {}, {}, 0, 0
  for place = s.digits, 1, -1 do
    a[place], b[place] = math.random(0, 9), math.random(0, 9)
    if carry == 1 and math.random() < 0.5 then b[place] = 9 - a[place] end
    local all = a[place] + b[place] + carry
    c[place], carry = all % 10, all // 10
    carries = carries + carry
  end
  return table.concat(a) .. "+" .. table.concat(b) .. "=" .. carry .. table.concat(c), given, carries
end

if s.write ~= "" then
  local file = assert(io.open(s.write, "w"))
  for i = 1, s.count do
    local text = sum()
    local question, answer = text:match "^(.*=)(.*)$"
    file:write(dllm.json.encode { task_id = tostring(i), prompt = question, answer = answer }, "\n")
  end
  assert(file:close())
  return
end

local characters = "0123456789+="
if s.decode_steps == 0 then s.decode_steps = s.digits + 1 end
local model, ids, texts
if s.score ~= "" then
  model, ids, texts = tasks.load(s.score, characters, s, how)
else
  model, ids, texts = tasks.train(sum, characters, s, how)
end
math.randomseed(s.seed + 1000) -- sums of the score are the same for every run
local exact = function(filled, text) return filled == text end
local share, _, passes = tasks.score(sum, exact, model, ids, texts, s, how)
print(string.format("%.2f forward passes for each sum", passes))
local function hard() -- as many carries as there may be, but one
  while true do
    local text, which, carries = sum()
    if carries >= s.digits - 1 then return text, which end
  end
end
local hard_share = tasks.score(hard, exact, model, ids, texts, s, how)
local keys = { "steps", "batch", "layers", "hidden", "lr", "count", "seed" }
for key in pairs(how.settings or {}) do
  if key ~= "lr" then keys[#keys + 1] = key end
end
tasks.report(how.name .. "_" .. s.digits .. "_long_carries", hard_share, script, s, "digits", keys)
tasks.report(how.name .. "_" .. s.digits, share, script, s, "digits", keys)
