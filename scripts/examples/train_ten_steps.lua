-- Ten training steps on a few sentences, then a sample: the whole library in one screen.
local dllm = require "dllm"

local sentences = {}
for i = 1, 200 do sentences[i] = "the cat sat on the mat and looked at the moon number " .. i % 7 end

local tok = dllm.train_tokenizer(dllm.dataset_from(sentences), { vocab_size = 300 })
local data = dllm.dataset_from(sentences, tok)
local loader = dllm.loader(data, { batch = 4, length = 32, epochs = 0 })

local model = dllm.new_model {
  model_type = "llama", vocab_size = tok:size(), hidden_size = 64, intermediate_size = 128, num_hidden_layers = 2,
  num_attention_heads = 2, num_key_value_heads = 2, max_position_embeddings = 64, tie_word_embeddings = true,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = tok:id "<|mask|>" },
}
local trainer = dllm.trainer(model, dllm.objective "mdlm", { lr = 3e-3, steps = 10 })

local first, last
for step = 1, 10 do
  local batch = loader:next()
  last = trainer:step(batch)
  first = first or last
  print(string.format("step %2d  loss %.4f", step, last))
end

local decoder = dllm.decoder(model, { steps = 8, gen_length = 12 })
decoder:start(tok:encode "the cat", 7)
decoder:run(function(event)
  if event.kind == "decode_step" then print("open positions: " .. event.open) end
end)
print(tok:decode(decoder:ids(0)))
return first, last
