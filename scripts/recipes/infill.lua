-- Fills the holes of a text: given tokens stay, open ones are decided in the order of confidence.
--   dllm run scripts/recipes/infill.lua --model runs/quickstart --text "Never <mask:6> the truth" [--steps 16] [--seed 1]
local dllm = require "dllm"

local USAGE = "dllm run scripts/recipes/infill.lua --model runs/quickstart --text \"Never <mask:6> the truth\" [--steps 16] [--seed 1]"
for _, word in ipairs(arg or {}) do
  if word == "--help" or word == "-h" then return print(USAGE) end
end

local settings = { model = "runs/quickstart", text = "Never <mask:6> the truth <mask:4>", steps = 16, seed = 1 }
for i = 1, arg and #arg or 0, 2 do
  local key = tostring(arg[i]):match "^%-%-(.+)$"
  assert(key and settings[key] ~= nil, "unknown argument " .. tostring(arg[i]) .. "; usage: " .. USAGE)
  settings[key] = tonumber(arg[i + 1]) or arg[i + 1]
end

local model, tok = dllm.model(settings.model), dllm.tokenizer(settings.model)
local mask_id = model:get "mask_id"

-- Text with holes into a canvas (ids) and what is given (1) or open (0).
local canvas, fixed = {}, {}
local function give(text)
  for _, id in ipairs(tok:encode(text)) do
    canvas[#canvas + 1], fixed[#fixed + 1] = id, 1
  end
end
local from = 1
for before, length, after in settings.text:gmatch "()<mask:?(%d*)>()" do
  if before > from then give(settings.text:sub(from, before - 1)) end
  for _ = 1, tonumber(length) or 1 do
    canvas[#canvas + 1], fixed[#fixed + 1] = mask_id, 0
  end
  from = after
end
if from <= #settings.text then give(settings.text:sub(from)) end

local decoder = dllm.decoder(model, { steps = settings.steps, policy = "low_confidence" })
local slot = decoder:add(canvas, fixed, { seed = settings.seed })
decoder:run(function(event)
  if event.open then print(dllm.json.encode { event = "decode_step", step = event.step, open = event.open }) end
end)
print(dllm.json.encode { event = "infilled", text = tok:decode(decoder:ids(slot)), nfe = decoder:metric("nfe", slot) })
