-- Turns a pretrained autoregressive model into a diffusion model: attention becomes bidirectional, the shift of one
-- token stays (as Dream does it), a mask token is added, and training goes on with the masked loss.
--   dllm run scripts/recipes/adapt_to_diffusion.lua --model smollm2.gguf --data corpus.txt [--out runs/adapted] [--steps 50]
local dllm = require "dllm"

local settings = { model = "", data = "/usr/share/games/fortunes", out = "runs/adapted", steps = 50, length = 128,
                   batch = 4, lr = 1e-4 }
for i = 1, arg and #arg or 0, 2 do
  local key = tostring(arg[i]):match "^%-%-(.+)$"
  assert(key and settings[key] ~= nil, "unknown argument " .. tostring(arg[i]))
  settings[key] = tonumber(arg[i + 1]) or arg[i + 1]
end
assert(settings.model ~= "", "--model: a model folder or a GGUF file")

local function say(event) print(dllm.json.encode(event)) end

-- Bidirectional attention and shift 1 are settings beside the weights; they are written into every save.
local model = dllm.model(settings.model, { dtype = "f32", attention = "bidirectional", shift = 1 })
local tok = dllm.tokenizer(settings.model)
local data = dllm.dataset(settings.data, tok)
local loader = dllm.loader(data, { batch = settings.batch, length = settings.length, epochs = 0 })

local trainer = dllm.trainer(model, dllm.objective("mdlm"),
  { lr = settings.lr, schedule = "cosine", warmup = math.min(10, settings.steps // 5), steps = settings.steps })
say { event = "model", parameters = model:get "params", mask_id = model:get "mask_id", attention = model:describe().attention }

local first, last
for step = 1, settings.steps do
  last = trainer:step(loader:next())
  first = first or last
  if step % 5 == 0 or step == 1 then
    say { event = "train_step", step = step, loss = last, tokens_per_second = trainer:metric "tokens_per_second" }
  end
end
say { event = "checkpoint", dir = trainer:save(settings.out, loader), first = first, last = last }

local decoder = dllm.decoder(model, { steps = 16, gen_length = 16 })
decoder:start(tok:encode "The capital of France is", 1)
decoder:run()
say { event = "sample", text = tok:decode(decoder:ids(0)) }
