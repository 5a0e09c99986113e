-- What one call costs in PUC Lua and in LuaJIT: the smallest of many rounds, in nanoseconds of the processor.
local dllm = require "dllm"

local CALLS, ROUNDS = 5000, 50
local model = dllm.new_model {
  model_type = "llama", vocab_size = 32, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 32,
  dllm = {attention = "bidirectional", mask_token_id = 1},
}
local decoder = dllm.decoder(model, {steps = 2, gen_length = 4})
decoder:start({2, 3}, 7)

local function measure(name, call)
  local best = math.huge
  for _ = 1, ROUNDS do
    local begin = os.clock()
    for _ = 1, CALLS do call() end
    best = math.min(best, (os.clock() - begin) * 1e9 / CALLS)
  end
  print(("%s %.1f"):format(name, best))
end

measure("version", dllm.raw.abi_version)
measure("metric", function() return decoder:metric "open" end)
measure("ids", function() return decoder:ids() end)
measure("task", function() dllm.task():close() end)
