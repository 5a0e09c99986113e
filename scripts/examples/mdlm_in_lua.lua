-- An objective of your own: fill ids, targets and weights, the library does the rest (objective "token_ce").
-- This one is masked diffusion with a linear schedule, drawn from the library's own keys: it equals "mdlm" bit for bit,
-- and "llada_sft" where every answer counts once (per_answer).
-- `require "mdlm_in_lua"` gives the function; `dllm run` trains three steps with it, and with "mdlm", side by side.
local dllm = require "dllm"
local random = dllm.random

local EPSILON = random.f32(1e-3)  -- smallest time
local linear = dllm.schedule("linear")

-- rows: a batch with ids (batch, seq) and, when there, keep and segments; mask_id: the token that hides one.
-- Divides the weights of each text of a row by its trainable tokens; returns the number of texts that have such tokens.
-- first, last: the row. text_of: the number of a token's text; 0 and other given tokens do not count.
local function weigh_texts_alike(weights, is_given, text_of, first, last)
  local trainable, texts = {}, 0
  for at = first, last do
    local text = text_of(at)
    if not is_given[at] then
      if not trainable[text] then texts = texts + 1 end
      trainable[text] = (trainable[text] or 0) + 1
    end
  end
  for at = first, last do weights[at] = weights[at] / (trainable[text_of(at)] or 1) end
  return texts
end

-- per_answer: each text's weights are divided by its own trainable tokens, and texts are counted.
local function prepare(rows, mask_id, seed, step, per_answer)
  local ids, dims = rows:values("ids"), rows:dims("ids")
  local optional = {}
  for _, name in ipairs(rows:names()) do
    if name == "keep" or name == "segments" then optional[name] = rows:values(name) end
  end
  local batch, seq = dims[1], dims[2]
  local targets, weights, normalizer, times, is_given = {}, {}, {}, {}, {}
  local function text_of(at) return optional.segments and optional.segments[at] or 1 end
  for b = 0, batch - 1 do
    local k0, k1 = random.key(seed, "time", step, b)
    local scaled = random.f32(random.f32(1 - EPSILON) * random.uniform(k0, k1, 0))
    local t = random.f32(EPSILON + scaled)
    local alpha, _, weight = linear:eval({ t })
    local probability = random.f32(1 - alpha[1])
    k0, k1 = random.key(seed, "mask", step, b)
    local trainable = 0
    for i = 0, seq - 1 do
      local at = b * seq + i + 1
      local given = (optional.keep and optional.keep[at] == 1) or (optional.segments and optional.segments[at] == 0)
      local hidden = not given and random.uniform(k0, k1, i) < probability
      is_given[at] = given
      if not given then trainable = trainable + 1 end
      targets[at] = hidden and ids[at] or -1
      weights[at] = hidden and weight[1] or 0
      if hidden then ids[at] = mask_id end
    end
    if per_answer then trainable = weigh_texts_alike(weights, is_given, text_of, b * seq + 1, (b + 1) * seq) end
    normalizer[b + 1], times[b + 1] = trainable, t
  end
  local made = dllm.batch()
  for name, values in pairs(optional) do made:set(name, name == "keep" and "u8" or "i32", dims, values) end
  made:set("ids", "i32", dims, ids):set("targets", "i32", dims, targets):set("weights", "f32", dims, weights)
  return made:set("normalizer", "f32", { batch }, normalizer):set("t", "f32", { batch }, times)
end

if ... == "mdlm_in_lua" then return prepare end

local sentences = {}
for i = 1, 60 do sentences[i] = "one fish two fish red fish blue fish number " .. i end
local tok = dllm.train_tokenizer(dllm.dataset_from(sentences), { vocab_size = 290 })
local mask_id, seed = tok:id "<|mask|>", 11

local function trainer_with(objective)
  local model = dllm.new_model({
    model_type = "llama", vocab_size = tok:size(), hidden_size = 64, intermediate_size = 96, num_hidden_layers = 2,
    num_attention_heads = 2, num_key_value_heads = 2, max_position_embeddings = 64, tie_word_embeddings = true,
    dllm = { attention = "bidirectional", shift = 0, mask_token_id = mask_id },
  }, { seed = 3 })
  return dllm.trainer(model, dllm.objective(objective), { lr = 1e-3, seed = seed })
end

for _, name in ipairs { "mdlm", "llada_sft" } do
  local loader = dllm.loader(dllm.dataset_from(sentences, tok), { batch = 3, length = 24, epochs = 0 })
  local own, built_in = trainer_with "token_ce", trainer_with(name)
  for step = 0, 2 do
    local rows = loader:next()
    local theirs = built_in:step(rows)
    local mine = own:step(prepare(rows, mask_id, seed, step, name == "llada_sft"))
    print(string.format("%-10s step %d  own %.6f  built in %.6f", name, step, mine, theirs))
    assert(mine == theirs, "the two objectives differ")
  end
end
