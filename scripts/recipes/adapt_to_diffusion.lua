-- Turns a pretrained autoregressive model into a diffusion model: attention becomes bidirectional, the shift of one
-- token stays (as Dream does it), a mask token is added, and training goes on with the masked loss.
--   dllm run scripts/recipes/adapt_to_diffusion.lua --model smollm2.gguf --data corpus.txt [--out runs/adapted] [--steps 50]
local dllm = require "dllm"

local USAGE = "dllm run scripts/recipes/adapt_to_diffusion.lua --model smollm2.gguf --data corpus.txt [--out runs/adapted] [--steps 50]"
for _, word in ipairs(arg or {}) do
  if word == "--help" or word == "-h" then return print(USAGE) end
end

local settings = { model = "", data = "/usr/share/games/fortunes", out = "runs/adapted", steps = 50, length = 128,
                   batch = 4, lr = 1e-4, eval_batches = 8 }
for i = 1, arg and #arg or 0, 2 do
  local key = tostring(arg[i]):match "^%-%-(.+)$"
  assert(key and settings[key] ~= nil, "unknown argument " .. tostring(arg[i]) .. "; usage: " .. USAGE)
  settings[key] = tonumber(arg[i + 1]) or arg[i + 1]
end
assert(settings.model ~= "", "--model: a model folder or a GGUF file")

local function say(event) print(dllm.json.encode(event)) end

local model = dllm.model(settings.model, { dtype = "f32" })
local tok = dllm.tokenizer(settings.model)
local data = dllm.dataset(settings.data, tok)
local loading = { batch = settings.batch, length = settings.length, epochs = 0, split = "train" }
local loader = dllm.loader(data, loading)
loading.split = "held_out"
local held_out = dllm.loader(data, loading)

local trainer = dllm.trainer(model, dllm.objective("mdlm"),
  { lr = settings.lr, schedule = "cosine", warmup = math.min(10, settings.steps // 5), steps = settings.steps })
-- The trainer makes attention bidirectional, keeps the shift of one token and adds the mask token; every save records it.
say { event = "model", parameters = model:get "params", mask_id = model:get "mask_id", attention = model:describe().attention,
      shift = model:describe().shift }

-- The same held-out rows under the same noise every time: what of the loss is luck stays equal.
local function held_out_loss()
  held_out:seek(0)
  return trainer:eval(held_out, settings.eval_batches)
end

local before = held_out_loss()
say { event = "eval", step = 0, loss = before }
for step = 1, settings.steps do
  local loss = trainer:step(loader:next())
  if step % 5 == 0 or step == 1 then
    say { event = "train_step", step = step, loss = loss, tokens_per_second = trainer:metric "tokens_per_second" }
  end
end
local after = held_out_loss()
say { event = "eval", step = settings.steps, loss = after, before = before }
say { event = "checkpoint", dir = trainer:save(settings.out, loader) }

local decoder = dllm.decoder(model, { steps = 16, gen_length = 16 })
decoder:start(tok:encode "The capital of France is", 1)
decoder:run()
say { event = "sample", text = tok:decode(decoder:ids(0)) }
