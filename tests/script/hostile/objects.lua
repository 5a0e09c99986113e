Objects of the library: closing what is in use, memory, wrong arguments.

--- a decoder closed in its own callback | error failed_precondition the decoder is in use
local model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
local decoder = dllm.decoder(model, { steps = 4, gen_length = 4 })
decoder:start({ 1, 2 }, 1)
decoder:run(function() decoder:close() end)
--- a decoder closed in its own callback, caught | ok [4]
local model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
local decoder = dllm.decoder(model, { steps = 4, gen_length = 4 })
decoder:start({ 1, 2 }, 1)
local count = 0
decoder:run(function(event) if event.kind == "decode_step" then count = count + 1 end pcall(decoder.close, decoder) end)
return count
--- a decoder started, stepped, emptied in its own callback | ok ["failed_precondition","failed_precondition","failed_precondition","failed_precondition",true]
local model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
local decoder = dllm.decoder(model, { steps = 4, gen_length = 4 })
decoder:start({ 1, 2 }, 1)
local codes, ids = {}, nil
decoder:run(function()
  local function code(f, ...) return select(2, pcall(f, decoder, ...)).code end
  codes = { code(decoder.start, { 1 }, 1), code(decoder.step), code(decoder.remove, 0), code(decoder.run) }
  ids = decoder:ids(0)
  return dllm.STOP
end)
return codes[1], codes[2], codes[3], codes[4], #ids == 6
--- a decoder closed in a finalizer while it runs | ok [4]
local model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
local decoder = dllm.decoder(model, { steps = 4, gen_length = 4 })
decoder:start({ 1, 2 }, 1)
local count = 0
decoder:run(function(event)
  if event.kind == "decode_step" then count = count + 1 end
  setmetatable({}, { __gc = function() decoder:close() end })
  for i = 1, 20000 do local t = { {}, {} } end
end)
return count
--- a decoder closed by a coroutine in its callback | error failed_precondition the decoder is in use
local model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
local decoder = dllm.decoder(model, { steps = 4, gen_length = 4 })
decoder:start({ 1, 2 }, 1)
decoder:run(function() coroutine.wrap(function() local d <close> = decoder end)() end)
--- a trainer and its loader closed in their callback | ok ["failed_precondition","failed_precondition",2]
local tok = dllm.train_tokenizer(dllm.dataset_from { "a b c d e f" }, { vocab_size = 300 })
local model = dllm.new_model { model_type = "llama", vocab_size = tok:size(), hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = tok:id "<|mask|>" } }
local loader = dllm.loader(dllm.dataset_from({ "a b c", "d e f" }, tok), { length = 8, batch = 1, epochs = 0 })
local trainer = dllm.trainer(model, dllm.objective "mdlm")
local first, second, count = nil, nil, 0
trainer:run(loader, 2, function(event)
  if event.kind ~= "train_step" then return end
  count = count + 1
  first = select(2, pcall(trainer.close, trainer)).code
  second = select(2, pcall(loader.close, loader)).code
end)
return first, second, count
--- a trainer that runs itself in its callback | error failed_precondition the trainer runs
local tok = dllm.train_tokenizer(dllm.dataset_from { "a b c d e f" }, { vocab_size = 300 })
local model = dllm.new_model { model_type = "llama", vocab_size = tok:size(), hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = tok:id "<|mask|>" } }
local loader = dllm.loader(dllm.dataset_from({ "a b c", "d e f" }, tok), { length = 8, batch = 1, epochs = 0 })
local trainer = dllm.trainer(model, dllm.objective "mdlm")
trainer:run(loader, 2, function() trainer:run(loader, 1) end)
--- model, engine, tokenizer closed in a callback of others | ok ["nil"]
local engine = dllm.engine { threads = 1 }
local model = dllm.new_model({ model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }, nil, engine)
local decoder = dllm.decoder(model, { steps = 4, gen_length = 4 })
decoder:start({ 1, 2 }, 1)
local failed
decoder:run(function() model:close() engine:close() end)
return type(failed)
--- an endless callback | cancel
local model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
local decoder = dllm.decoder(model, { steps = 4, gen_length = 4 })
decoder:start({ 1, 2 }, 1)
pcall(decoder.run, decoder, function() while true do end end)
return "went on"
--- decoding for ever | cancel
local model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
local decoder = dllm.decoder(model, { steps = 8, gen_length = 8 })
while true do
  decoder:start({ 1, 2 }, 1)
  pcall(decoder.run, decoder)
end
--- close of something else | error script_failed
dllm.engine().close({})
--- close of another object | error script_failed
dllm.engine().close(dllm.schedule "linear")
--- close of a file | error script_failed dllm.engine expected | level=full
dllm.engine().close(io.stdout)
--- close of a light table at full | error script_failed dllm.engine expected | level=full
dllm.engine().close(setmetatable({}, { __name = "dllm.engine" }))
--- a handle of the wrong kind | error invalid_argument must be a model
dllm.decoder(dllm.engine())
--- a closed handle | error invalid_argument closed
local e = dllm.engine()
e:close()
e:describe()
--- metatables of objects are hidden | ok [false]
return getmetatable(dllm.engine())
--- arrays beyond memory | error resource_exhausted
local all = {}
for i = 1, 1000 do all[i] = dllm.tensor("f32", { 250000 }, string.rep("\0", 1000000)) end
--- arrays that are garbage do not count | ok [200]
local count = 0
for i = 1, 200 do
  dllm.tensor("f32", { 250000 }, string.rep("\0", 1000000))
  count = count + 1
end
return count
--- fifty models | error resource_exhausted
local all = {}
for i = 1, 50 do
  all[i] = dllm.new_model { model_type = "llama", vocab_size = 1000, hidden_size = 256, intermediate_size = 512, num_hidden_layers = 4,
    num_attention_heads = 4, num_key_value_heads = 4, max_position_embeddings = 64,
    dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
end
--- a model beyond the limit | error resource_exhausted
dllm.new_model { model_type = "llama", vocab_size = 100000, hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 8,
  num_attention_heads = 8, num_key_value_heads = 8, max_position_embeddings = 64,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
--- engines of many threads | error permission_denied allows an engine 64 threads
dllm.engine { threads = 1024 }
--- many engines | error resource_exhausted
local all = {}
while true do all[#all + 1] = dllm.engine { threads = 4 } end
--- rows beyond memory | error resource_exhausted
local data = dllm.dataset_from {}
local row = string.rep("x ", 500000)
while true do data:add(row) end
--- many small handles | error resource_exhausted | steps=0
local all = {}
while true do all[#all + 1] = dllm.batch() end
--- a tensor of no memory's size | error invalid_argument
dllm.tensor("f32", { 1 << 40, 1 << 40 }, {})
--- a list with a wrong length | error invalid_argument data[3] must be a number, not string
dllm.tensor("f32", { 4 }, setmetatable({ 1, 2, "x", 4 }, { __len = function() return 1 << 60 end }))
--- a schedule that gives no number | error invalid_argument gives a number, not string (at t = 0)
dllm.schedule(function() return "x" end)
--- a schedule that stays | error invalid_argument alpha must fall: it is 0.5 at t = 0
dllm.schedule(function() return 0.5 end)
--- a schedule of endless points | cancel | memory=0
dllm.schedule(function(t) return 1 - t end, { points = 1 << 40 })
--- an endless schedule | cancel
dllm.schedule(function() while true do end end)
--- error tables show their content | error script_failed {"code":1}
error { code = 1 }
--- error tables with a code | error not_found nothing here
error { code = "not_found", message = "nothing here" }
--- a hint stands once | error not_found did you mean
local ok, err = pcall(dllm.engine, { thread = 1 })
error(err.hint:find "threads" and { code = err.code, message = "did you mean " .. (err.message:find("threads", 1, true) and "twice" or "") } or err)
--- a replaced string.packsize asks for no room | ok [true,[1.0]]
string.packsize = function() return 1500000000 end
local made = dllm.tensor("f32", { 1 }, { 1 })
return pcall(made.values, made)
--- names of arrays | error invalid_argument at most 256
dllm.batch():set(("x"):rep(1 << 20), "i32", { 0 }, {})
--- many empty arrays | error resource_exhausted
local batch = dllm.batch()
for i = 1, 1000000 do batch:set("x" .. i, "i32", { 0 }, {}) end
--- lists of schedules | error resource_exhausted
local t, alpha, kept = {}, {}, {}
for i = 0, 99999 do t[i + 1], alpha[i + 1] = string.pack("<d", i / 99999), string.pack("<d", 1 - i / 99999) end
t, alpha = table.concat(t), table.concat(alpha)
for i = 1, 400 do kept[i] = dllm.schedule { t = t, alpha = alpha } end
--- long special tokens | error invalid_argument an added token
dllm.train_tokenizer(dllm.dataset_from { "hello" }, { vocab_size = 280, special_tokens = { ("x"):rep(1 << 17) } })
--- ids of a long token | error resource_exhausted
local long = ("x"):rep(60000)
local tok = dllm.train_tokenizer(dllm.dataset_from { "hello" }, { vocab_size = 280, special_tokens = { long } })
local ids, id = {}, tok:id(long)
for i = 1, 8192 do ids[i] = id end
tok:decode(ids)
--- a template that doubles a text | error resource_exhausted
local tok = dllm.train_tokenizer(dllm.dataset_from { "hello" }, { vocab_size = 280 })
local template = "{% set n = namespace(x='a') %}{% for i in range(100000) %}{% set n.x = n.x ~ n.x %}{% endfor %}"
tok:chat({ { role = "user", content = "x" } }, { template = template })
--- an engine's threads, set | error permission_denied 64 threads
dllm.engine():set("threads", 1000)
--- an engine's threads count | error resource_exhausted
local kept = {}
for i = 1, 100 do
  kept[i] = dllm.engine { threads = 1 }
  kept[i]:set("threads", 64)
end
