-- Trains a masked diffusion model from scratch on your text. The script owns the loop.
--   dllm run scripts/recipes/train_from_scratch.lua --data corpus.txt [--out runs/scratch] [--steps 500] [--tiny]
-- Started again with the same --out it goes on where it stopped. One JSON line per event.
local dllm = require "dllm"

local USAGE = "dllm run scripts/recipes/train_from_scratch.lua --data corpus.txt [--out runs/scratch] [--steps 500] [--tiny]"
for _, word in ipairs(arg or {}) do
  if word == "--help" or word == "-h" then return print(USAGE) end
end

-- ---- what you may want to change ----
local settings = {
  data = "/usr/share/games/fortunes", out = "runs/scratch", steps = 500,
  vocab = 2048, layers = 4, hidden = 256, length = 128, batch = 16, lr = 2e-3, schedule = "linear",
}

local i = 1
while arg and i <= #arg do
  local key = tostring(arg[i]):match "^%-%-(.+)$"
  assert(key and (key == "tiny" or settings[key] ~= nil), "unknown argument " .. tostring(arg[i]) .. "; usage: " .. USAGE)
  if key == "tiny" then
    for name, value in pairs { vocab = 300, layers = 2, hidden = 64, length = 32, batch = 4, steps = 6 } do
      settings[name] = value
    end
    i = i + 1
  else
    settings[key] = tonumber(arg[i + 1]) or arg[i + 1]
    i = i + 2
  end
end

local function say(event) print(dllm.json.encode(event)) end

-- ---- text: the run's own tokenizer, or a new one ----
local latest = dllm.latest_checkpoint(settings.out)
local tok
if latest then
  tok = dllm.tokenizer(settings.out)
else
  tok = dllm.train_tokenizer(dllm.dataset(settings.data), { vocab_size = settings.vocab })
  say { event = "tokenizer", tokens = tok:size() }
end
local data = dllm.dataset(settings.data, tok, { rows = "paragraph" })
local loading = { batch = settings.batch, length = settings.length, epochs = 0, split = "train" }
local train = dllm.loader(data, loading)
loading.split = "held_out"
local held_out = dllm.loader(data, loading)

-- ---- model ----
local model
if latest then
  model = dllm.model(settings.out)
else
  model = dllm.new_model {
    model_type = "llama", vocab_size = tok:size(), hidden_size = settings.hidden,
    intermediate_size = settings.hidden * 8 // 3, num_hidden_layers = settings.layers,
    num_attention_heads = math.max(1, settings.hidden // 64), num_key_value_heads = math.max(1, settings.hidden // 64),
    max_position_embeddings = 1024, tie_word_embeddings = true,
    dllm = { attention = "bidirectional", shift = 0, mask_token_id = tok:id "<|mask|>" },
  }
  model:set_tokenizer(tok)
end

-- ---- training: any schedule, any objective, your loop ----
local objective = dllm.objective("mdlm", nil, dllm.schedule(settings.schedule))
local trainer = dllm.trainer(model, objective,
  { lr = settings.lr, schedule = "cosine", warmup = math.min(40, settings.steps // 10), steps = settings.steps })
if latest then
  trainer:restore(latest, train)
  say { event = "resumed", dir = latest, step = trainer:metric "step" }
end

local function save()
  say { event = "checkpoint", dir = trainer:save(settings.out, train) }
end

local best, patience = math.huge, 0
for step = math.tointeger(trainer:metric "step") + 1, settings.steps do
  local loss = trainer:step(train:next())
  if step % 10 == 0 or step == settings.steps then
    say { event = "train_step", step = step, loss = loss, tokens_per_second = trainer:metric "tokens_per_second" }
  end
  if step % 200 == 0 or step == settings.steps then
    held_out:seek(0)
    local held = trainer:eval(held_out, 4)
    say { event = "eval", step = step, loss = held }
    patience = held < best and 0 or patience + 1
    best = math.min(best, held)
    save()
    if patience == 3 then break end  -- early stopping
  end
end

-- ---- a sample ----
local decoder = dllm.decoder(model, { steps = 16, gen_length = 24, temperature = 0.7, top_k = 50 })
decoder:start({}, 1)
decoder:run()
say { event = "sample", text = tok:decode(decoder:ids(0)) }
