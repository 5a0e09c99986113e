-- A model, a tokenizer and text small enough for every test.
local dllm = require "dllm"

local sentences = {}
for i = 0, 199 do sentences[i + 1] = "the cat sat on the mat and looked at the moon number " .. i % 7 end

-- One of everything; training continues on the same model.
return function(layers)
  local tiny = {engine = dllm.engine {threads = 2}}
  tiny.tokenizer = dllm.train_tokenizer(dllm.dataset_from(sentences), {vocab_size = 300})
  tiny.data = dllm.dataset_from(sentences, tiny.tokenizer)
  tiny.loader = dllm.loader(tiny.data, {batch = 4, length = 32, epochs = 0})
  tiny.config = {
    model_type = "llama", vocab_size = tiny.tokenizer:size(), hidden_size = 64, intermediate_size = 128,
    num_hidden_layers = layers or 2, num_attention_heads = 2, num_key_value_heads = 2, max_position_embeddings = 64,
    tie_word_embeddings = true,
    dllm = {attention = "bidirectional", shift = 0, mask_token_id = tiny.tokenizer:id "<|mask|>"},
  }
  tiny.model = dllm.new_model(tiny.config, nil, tiny.engine)
  return tiny
end
