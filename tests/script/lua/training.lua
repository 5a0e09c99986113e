-- A script owns the training loop; its own objective equals the library's bit for bit.
local dllm = require "dllm"
local tap = require "tap"
local prepare = require "mdlm_in_lua"

local sentences = {}
for i = 1, 60 do sentences[i] = "one fish two fish red fish blue fish number " .. i end
local tok = dllm.train_tokenizer(dllm.dataset_from(sentences), { vocab_size = 290 })
local mask_id = tok:id "<|mask|>"

local function new_model()
  return dllm.new_model({
    model_type = "llama", vocab_size = tok:size(), hidden_size = 64, intermediate_size = 96, num_hidden_layers = 2,
    num_attention_heads = 2, num_key_value_heads = 1, max_position_embeddings = 64, tie_word_embeddings = true,
    dllm = { attention = "bidirectional", shift = 0, mask_token_id = mask_id },
  }, { seed = 3 })
end

local function new_loader()
  return dllm.loader(dllm.dataset_from(sentences, tok), { batch = 3, length = 24, epochs = 0 })
end

-- The arrays, then the losses of three steps.
local rows = new_loader():next()
local theirs = dllm.objective("mdlm", { mask_id = mask_id }):prepare(rows, 11, 5)
local ours = prepare(rows, mask_id, 11, 5)
for _, name in ipairs { "ids", "targets", "weights", "normalizer", "t" } do
  tap.is(table.concat(ours:values(name), " "), table.concat(theirs:values(name), " "), "array " .. name)
end

-- Without options the mask token is the model's.
local of_model = dllm.objective("mdlm"):prepare(rows, 11, 5, new_model())
tap.is(table.concat(of_model:values("ids"), " "), table.concat(theirs:values("ids"), " "), "noise with the model's mask token")

local built_in = dllm.trainer(new_model(), dllm.objective "mdlm", { lr = 1e-3, seed = 11 })
local scripted = dllm.trainer(new_model(), dllm.objective "token_ce", { lr = 1e-3, seed = 11 })
local one, two = new_loader(), new_loader()
for step = 0, 2 do
  local wanted = built_in:step(one:next())
  local got = scripted:step(prepare(two:next(), mask_id, 11, step))
  tap.is(string.format("%.17g", got), string.format("%.17g", wanted), "loss of step " .. step)
end

-- Another optimizer, by name; its options are checked.
local plain = dllm.trainer(new_model(), dllm.objective "mdlm", { optimizer = "sgd", lr = 0.1, momentum = 0.9 })
local other = new_loader()
local first = plain:step(other:next())
for _ = 1, 20 do plain:step(other:next()) end
tap.ok(plain:step(other:next()) < first, "sgd lowers the loss")
local refused = tap.fails("an option of another optimizer", dllm.trainer, new_model(), dllm.objective "mdlm", { optimizer = "sgd", beta1 = 0.5 })
tap.ok(tostring(refused):find("beta1", 1, true), "the error names it")

-- Callbacks: stop, and an error that comes back as the same object.
local steps = 0
built_in:run(one, 10, function(event)
  steps = steps + 1
  return event.step < 5
end)
tap.is(built_in:metric "step", 5, "a callback stops the run")
local mine = { mine = true }
local err = tap.fails("an error in a callback raises", built_in.run, built_in, one, 3, function() error(mine) end)
tap.ok(err == mine or (type(err) == "table" and err.mine), "the very same error")
tap.done()
