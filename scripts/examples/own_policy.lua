-- A decoding policy in Lua: the model predicts, the script decides. This one keeps the surest open
-- position of every step (LLaDA's low-confidence remasking, one token at a time), so it must write what
-- the policy low_confidence writes; the end of the script compares them.
local dllm = require "dllm"

local model = dllm.new_model({
  model_type = "llama", vocab_size = 40, hidden_size = 64, intermediate_size = 96, num_hidden_layers = 2,
  num_attention_heads = 2, num_key_value_heads = 2, max_position_embeddings = 64, tie_word_embeddings = true,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 39 },
}, { seed = 1 })

local function surest(decoder, slot)
  local said = decoder:statistics(slot)
  local best = 1
  for i = 2, #said.probability do
    if said.probability[i] > said.probability[best] then best = i end
  end
  return { said.positions[best] }, { said.token[best] }
end

local settings = { policy = "low_confidence", gen_length = 12, steps = 12, temperature = 0.7 }
local mine, built_in = dllm.decoder(model, settings), dllm.decoder(model, settings)
mine:start({ 1, 2, 3 }, 5)
while mine:metric("done") == 0 do
  mine:predict()
  mine:commit(0, surest(mine, 0))
end
built_in:start({ 1, 2, 3 }, 5)
built_in:run()
print("mine    ", table.concat(mine:ids(0), " "))
print("built in", table.concat(built_in:ids(0), " "))
assert(table.concat(mine:ids(0), " ") == table.concat(built_in:ids(0), " "), "the two policies differ")
