-- Decoding step by step and at once, holes, seeds.
local dllm = require "dllm"
local tap = require "tap"

local model = dllm.new_model({
  model_type = "llama", vocab_size = 40, hidden_size = 64, intermediate_size = 96, num_hidden_layers = 2,
  num_attention_heads = 2, num_key_value_heads = 2, max_position_embeddings = 64, tie_word_embeddings = true,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 39 },
}, { seed = 1 })

local values = { steps = 6, gen_length = 10, temperature = 1.0 }
local pulled = dllm.decoder(model, values)
pulled:start({ 1, 2, 3 }, 5)
local steps = 0
while pulled:step() > 0 do steps = steps + 1 end
local pushed = dllm.decoder(model, values)
pushed:start({ 1, 2, 3 }, 5)
local events = 0
pushed:run(function(event) if event.open then events = events + 1 end end)
tap.is(table.concat(pushed:ids(0), " "), table.concat(pulled:ids(0), " "), "step and run give the same tokens")
tap.is(events, steps + 1, "one event a step")
local sliced, slices, changed = dllm.decoder(model, values), 0, 0
sliced:start({ 1, 2, 3 }, 5)
while sliced:step_for(0, function(event) if event.changed then changed = changed + #event.changed end end) > 0 do
  slices = slices + 1
end
tap.is(table.concat(sliced:ids(0), " "), table.concat(pulled:ids(0), " "), "slices give the same tokens")
tap.ok(slices > 6, "a step has many slices")
tap.is(changed, 10, "events name every position that changed, once")
sliced:start({ 1, 2, 3 }, 5)
sliced:step_for(0) -- suspended when the script ends
pushed:start({ 1, 2, 3 }, 6)
pushed:run()
tap.ok(table.concat(pushed:ids(0), " ") ~= table.concat(pulled:ids(0), " "), "another seed gives other tokens")

local slot = pushed:add({ 7, 0, 0, 9, 0, 11 }, { 1, 0, 0, 1, 0, 1 }, { seed = 2 })
pushed:run()
local ids = pushed:ids(slot)
tap.ok(ids[1] == 7 and ids[4] == 9 and ids[6] == 11, "given tokens stay")
tap.ok(ids[2] ~= 39 and ids[3] ~= 39 and ids[5] ~= 39, "no mask is left")
tap.is(pushed:metric("done", slot), 1.0, "the slot is done")
tap.is(tap.fails("a token out of the vocabulary raises", pushed.start, pushed, { 99 }, 0).code, "invalid_argument", "by position")

-- A schedule as a function, as an object and as numbers: the same tokens; a schedule by name gives others.
local function decoded(schedule, alphas)
  local own = dllm.decoder(model, { steps = 6, gen_length = 24, temperature = 1.0, schedule = schedule, schedule_alphas = alphas })
  own:start({ 1, 2, 3 }, 5)
  own:run()
  return table.concat(own:ids(), " ")
end
local function quick(t) return 1 - t ^ 3 end
local numbers = {}
for i = 0, 1000 do numbers[i + 1] = quick(i / 1000) end
tap.is(decoded(quick), decoded(nil, numbers), "a function is its numbers")
tap.is(decoded(dllm.schedule(quick)), decoded(quick), "an object is its function")
tap.is(decoded(nil, { 1, 0 }), decoded "linear", "two numbers are the linear schedule")
tap.ok(decoded(quick) ~= decoded "linear", "another schedule gives other tokens")
for _, wrong in ipairs { { { 1 }, "two numbers or more" }, { { 0, 1 }, "must fall" }, { { 1, 1 }, "must fall" }, { { 1, 0.2, 0.4, 0 }, "grows" }, { { 2, 0 }, "not in 0 to 1" }, { { 1, "a" }, "two numbers or more" } } do
  local failed = tap.fails("a schedule that is wrong raises", decoded, nil, wrong[1])
  tap.ok(failed.message:find(wrong[2], 1, true), "and is named: " .. failed.message)
end

-- Every policy, step by step and at once; some decode models of their own alone.
local models_of_their_own = { cola = true, diffusion_gemma = true, editflow = true, embedding = true, latent = true }
for _, policy in ipairs(dllm.names "policy") do
  if models_of_their_own[policy] then goto next_policy end
  local own = { policy = policy, steps = 8, gen_length = 8, block_length = 4 }
  local stepped, whole = dllm.decoder(model, own), dllm.decoder(model, own)
  stepped:start({ 1, 2, 3 }, 4)
  while stepped:step() > 0 do end
  whole:start({ 1, 2, 3 }, 4)
  whole:run()
  tap.is(table.concat(stepped:ids(), " "), table.concat(whole:ids(), " "), policy .. ": step and run agree")
  ::next_policy::
end
tap.done()
