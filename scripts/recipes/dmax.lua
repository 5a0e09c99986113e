-- On-policy uniform training (OPUT) of DMax (github.com/czg1225/DMax) from a pretrained autoregressive checkpoint: blocks at
-- one high noise level, the masks of some rows replaced by the model's own predictions; decoded by soft parallel decoding.
--   dllm run scripts/recipes/dmax.lua --model FOLDER --data corpus.txt [--out runs/dmax] [--steps 200] [--tiny]
-- FOLDER: a Hugging Face folder or a GGUF file, Qwen3 0.6B for example. The score is the held-out loss at the end, with that
-- at the start before it, and the forward passes for each token of a sample.
local dllm = require "dllm"
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local tasks = dofile(here .. "tasks.lua")

local USAGE = "dllm run scripts/recipes/dmax.lua --model FOLDER --data FILE [--out RUN] [--steps N] [--prompt TEXT] [--tiny]"
local s = tasks.settings({ model = "", data = "/usr/share/games/fortunes", out = "runs/dmax", steps = 200, block = 32, length = 256,
    batch = 4, lr = 1e-5, on_policy = 0.5, noise_low = 0.75, noise_high = 0.75, prompt = "The capital of France is", generate = 32,
    eval_batches = 8, threads = 0, seed = 1 },
  { steps = 2, block = 8, length = 32, batch = 2, generate = 8, eval_batches = 1 }, USAGE)
if not s then return end
assert(s.model ~= "", "--model: a model folder or a GGUF file")

local model = dllm.model(s.model, { dtype = "f32" }, dllm.engine { threads = s.threads })
local tok = dllm.tokenizer(s.model)
local data = dllm.dataset(s.data, tok)
local function loader(split)
  return dllm.loader(data, { batch = s.batch, length = s.length, epochs = 0, split = split, seed = s.seed })
end
local train, held_out = loader "train", loader "held_out"
local objective = dllm.objective("dmax", { block_length = s.block, on_policy = s.on_policy, noise_low = s.noise_low, noise_high = s.noise_high })
local trainer = dllm.trainer(model, objective,
  { lr = s.lr, schedule = "cosine", warmup = s.steps // 10, steps = s.steps, clip = 1, seed = s.seed })

-- The same rows under the same noise every time.
local function held_out_loss()
  held_out:seek(0)
  return trainer:eval(held_out, s.eval_batches)
end
os.execute('mkdir -p "' .. s.out .. '"')
trainer:add_sink("jsonl", s.out .. "/metrics.jsonl", { append = false })
local before, begin = held_out_loss(), os.time()
trainer:run(train, s.steps, function(event)
  if event.kind == "train_step" and event.step % math.max(1, s.steps // 10) == 0 then
    print(string.format("step %d of %d, loss %.4f, %d s", event.step, s.steps, event.loss, os.time() - begin))
  end
end)
local after = held_out_loss()
trainer:save(s.out, train)

local decoder = dllm.decoder(model, { policy = "spd", block_length = s.block, gen_length = s.generate })
decoder:start(tok:encode(s.prompt), s.seed)
decoder:run()
print(tok:decode(decoder:ids(0)))
print(string.format("%.2f forward passes for each of %d tokens", decoder:metric("nfe", 0) / s.generate, s.generate))
print(string.format("score dmax_loss_before %.4f", before))
print(string.format("score dmax_loss %.4f", after))
local words = {}
for _, key in ipairs { "model", "data", "steps", "block", "length", "batch", "lr", "on_policy", "noise_low", "noise_high", "seed" } do
  words[#words + 1] = "--" .. key .. " " .. tostring(s[key])
end
print("reproduce: dllm run scripts/recipes/dmax.lua " .. table.concat(words, " "))
