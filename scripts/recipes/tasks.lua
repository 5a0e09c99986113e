-- What the recipes with checkable answers share: rows of characters of which some are given, a model that is trained to fill
-- the others, and a score that counts whole rows. `how` of tasks.train and tasks.score is what differs in a recipe: objective,
-- objective_options, model (config of dllm), heads, decoder (options), settings (of its own); inserts: the answer is not there
-- before; teacher: the run that teaches.
local dllm = require "dllm"
local tasks = {}

-- Settings from `--key value` pairs; --tiny takes those of `tiny`. Returns nil after --help.
function tasks.settings(settings, tiny, usage)
  local i = 1
  while arg and i <= #arg do
    local key = tostring(arg[i]):match "^%-%-(.+)$"
    if key == "help" then return print(usage) end
    if key == "tiny" then
      for name, value in pairs(tiny) do settings[name] = value end
      i = i + 1
    else
      assert(key and settings[key] ~= nil and arg[i + 1], "unknown argument " .. tostring(arg[i]) .. "; usage: " .. usage)
      settings[key] = tonumber(arg[i + 1]) or arg[i + 1]
      i = i + 2
    end
  end
  math.randomseed(settings.seed)
  return settings
end

-- A token for each byte, so that a saved model works with dllm generate.
function tasks.tokenizer(characters)
  local tok = dllm.train_tokenizer(dllm.dataset_from { characters:sub(1, 1) }, { vocab_size = 264 })
  local ids, texts = {}, {}
  for character in characters:gmatch "." do
    local id = tok:encode(character)
    assert(#id == 1, "the character " .. character .. " is not one token")
    ids[character], texts[id[1]] = id[1], character
  end
  return tok, ids, texts
end

-- count rows of new(): ids, and what is given (1) or to be filled (0).
local function batch_of(new, ids, count)
  local all, keep, length = {}, {}, nil
  for _ = 1, count do
    local characters, given = new()
    length = #characters
    for i = 1, length do
      all[#all + 1], keep[#keep + 1] = ids[characters:sub(i, i)], given[i]
    end
  end
  return dllm.batch { ids = { "i32", { count, length }, all }, keep = { "u8", { count, length }, keep } }
end

-- A model and its teacher are on one engine.
local on
local function engine(s)
  on = on or dllm.engine { threads = s.threads }
  return on
end
local function new_model(characters, s, how)
  local tok, ids, texts = tasks.tokenizer(characters)
  local config = { attention = "bidirectional", shift = 0, mask_token_id = tok:id "<|mask|>" }
  for key, value in pairs(how.model or {}) do config[key] = value end
  local model = dllm.new_model({
    model_type = "llama", vocab_size = tok:size(), hidden_size = s.hidden, intermediate_size = s.hidden * 8 // 3 // 32 * 32,
    num_hidden_layers = s.layers, num_attention_heads = math.max(1, s.hidden // 32), num_key_value_heads = math.max(1, s.hidden // 32),
    head_dim = 32, max_position_embeddings = 256, tie_word_embeddings = true, initializer_range = s.hidden ^ -0.5,
    dllm = config,
  }, { seed = s.seed, heads = how.heads }, engine(s))
  model:set_tokenizer(tok)
  return model, ids, texts
end

-- Trains a bidirectional model on rows of new(), from scratch or from the model of run s.from. Metrics are those that dllm
-- report reads.
function tasks.train(new, characters, s, how)
  local model, ids, texts
  if (s.from or "") ~= "" then
    model, ids, texts = tasks.load(s.from, characters, s, how)
  else
    model, ids, texts = new_model(characters, s, how)
  end
  if how.teacher then model:add_network((tasks.load(how.teacher, characters, s, how))) end
  -- The given characters are the prompt, the others the answer. llada_sft: each answer counts once.
  local trainer = dllm.trainer(model, dllm.objective(how.objective or "llada_sft", how.objective_options),
    { lr = s.lr, schedule = "cosine", warmup = math.min(100, s.steps // 10), steps = s.steps, clip = 1, seed = s.seed })
  os.execute('mkdir -p "' .. s.out .. '"')
  local metrics, begin = assert(io.open(s.out .. "/metrics.jsonl", "w")), os.time()
  for step = 1, s.steps do
    local loss = trainer:step(batch_of(new, ids, s.batch))
    if step % 20 == 0 or step == s.steps then
      local line = { event = "train_step", step = step, loss = loss }
      for _, key in ipairs { "grad_norm", "lr", "tokens", "tokens_per_second" } do line[key] = trainer:metric(key) end
      line.tokens = math.tointeger(line.tokens)
      metrics:write(dllm.json.encode(line), "\n")
    end
    if step % math.max(1, s.steps // 10) == 0 then
      print(string.format("step %d of %d, loss %.4f, %d s", step, s.steps, loss, os.time() - begin))
    end
  end
  metrics:close()
  trainer:save(s.out)
  return model, ids, texts
end

-- Fills the open characters of `count` rows of new(); the share for which right(filled, row) holds, seconds, and forward
-- passes for each row.
function tasks.score(new, right, model, ids, texts, s, how)
  local mask, good, passes, begin = model:get "mask_id", 0, 0, os.time()
  local options = { policy = "low_confidence", steps = s.decode_steps }
  for key, value in pairs(how.decoder or {}) do options[key] = value end
  local decoder = dllm.decoder(model, options)
  for first = 1, s.count, 64 do
    local rows = {}
    for i = first, math.min(first + 63, s.count) do
      local characters, given = new()
      local canvas = {}
      for k = 1, #characters do
        if given[k] == 1 then canvas[#canvas + 1] = ids[characters:sub(k, k)]
        elseif not how.inserts then canvas[#canvas + 1] = mask end
      end
      local fixed = table.move(given, 1, #canvas, 1, {})
      rows[#rows + 1] = { text = characters, slot = decoder:add(canvas, fixed, how.inserts and { seed = i, prompt_length = #canvas } or { seed = i }) }
    end
    decoder:run()
    for _, row in ipairs(rows) do
      local filled = {}
      for k, id in ipairs(decoder:ids(row.slot)) do filled[k] = texts[id] or "?" end
      row.filled = table.concat(filled)
      if right(row.filled, row.text) then good = good + 1 end
      passes = passes + decoder:metric("nfe", row.slot)
      decoder:remove(row.slot)
    end
    if first == 1 then print("answer " .. rows[1].text .. "\nfilled " .. rows[1].filled) end
  end
  return good / s.count, os.time() - begin, passes / s.count
end

-- The model of an earlier run, with its characters.
function tasks.load(run, characters, s, how)
  local model, tok, ids, texts = nil, dllm.tokenizer(run), {}, {}
  model = dllm.model(run, { heads = how.heads }, engine(s))
  for character in characters:gmatch "." do
    ids[character] = tok:encode(character)[1]
    texts[ids[character]] = character
  end
  return model, ids, texts
end

-- "score NAME VALUE", and the command that gives it again: of one that trained, or of one that scored a run.
function tasks.report(name, value, script, s, task_key, keys)
  print(string.format("score %s %.4f", name, value))
  keys = table.move(s.score ~= "" and { "score", "count", "seed" } or keys, 1, 9, 2, { task_key })
  local words = {}
  for _, key in ipairs(keys) do words[#words + 1] = "--" .. key .. " " .. tostring(s[key]) end
  if (s.from or "") ~= "" and s.score == "" then words[#words + 1] = "--from " .. s.from end
  print("reproduce: dllm run scripts/recipes/" .. script .. " " .. table.concat(words, " "))
end

return tasks
