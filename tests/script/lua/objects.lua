-- Objects, options as tables, errors, closing.
local dllm = require "dllm"
local tap = require "tap"

tap.is(type(dllm.version), "string", "the module has its version")
tap.ok(#dllm.names "objective" >= 3, "the registry lists objectives")

local err = tap.fails("an unknown option raises", dllm.engine, { thread = 1 })
tap.is(err.code, "not_found", "with its code")
tap.ok(tostring(err):find "threads", "and the nearest key: " .. tostring(err))

local engine = dllm.engine { threads = 1 }
tap.is(engine:get "threads", 1, "options reach the engine")
tap.ok(tostring(engine):find "dllm.engine", "an object prints its kind")
engine:close()
engine:close()
tap.ok(tostring(engine):find "closed", "closing twice is fine")
tap.is(tap.fails("a closed object raises", engine.get, engine, "threads").code, "invalid_argument", "as an argument error")

local batch = dllm.batch { ids = { "i32", { 2, 3 }, { 1, 2, 3, 4, 5, 6 } } }
tap.is(table.concat(batch:values "ids", ","), "1,2,3,4,5,6", "arrays come back")
tap.is(tap.fails("a wrong type raises", batch.set, batch, "ids", "f32", { 1 }, { 1 }).code, "invalid_argument", "by name")
tap.fails("too few elements raise", batch.set, batch, "x", "f32", { 4 }, { 1 })
tap.fails("text for a handle raises", dllm.loader, "text", {})

local tok = dllm.train_tokenizer(dllm.dataset_from { "the cat sat on the mat" }, { vocab_size = 300 })
local ids, keep = tok:chat({ { role = "user", content = "a<|mask|>" }, { role = "assistant", content = "bc" } },
  { template = "{% for m in messages %}{{ m.content }}{{ mask_token }}{% endfor %}" })
tap.is(tok:decode(ids), "a<|mask|><|mask|>bc<|mask|>", "a template writes a conversation")
tap.is(#ids, 13, "what a message spells is no special token")
local talks = { { conversations = { { from = "human", value = "hi" }, { from = "gpt", value = "yes" } } },
  { prompt = "hi", completion = "yes" } }
local chat_tok = dllm.train_tokenizer(dllm.dataset_from(talks), { vocab_size = 300 })
local talk = chat_tok:chat({ { from = "human", value = "hi" }, { from = "gpt", value = "yes" } }, { template = "chatml" })
tap.is(chat_tok:decode(talk), "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n", "templates have names")
tap.is(dllm.dataset_from(talks, chat_tok, { template = "chatml" }):size(), 2, "prompts are conversations too")
tap.is(tap.fails("a name that no template has raises", dllm.dataset_from, talks, chat_tok, { template = "chatlm" }).code,
  "not_found", "by name")
tap.is(tap.fails("a template whose tokens are missing raises", tok.chat, tok, { { role = "user", content = "a" } },
  { template = "llama3" }).code, "failed_precondition", "by its tokens")

local said = tok:encode("the caf\u{e9} User: no")
local answer, shown, why = dllm.answer(tok, { begin = 1, prompt = "included", stop_texts = { " User:" } }), "", nil
for i = 1, #said do
  local states = {}
  for at = 1, #said do states[at] = at <= i and dllm.FINAL or dllm.MASKED end
  why = answer:update(said, states)
  shown = shown .. answer:next()
  if why then break end
end
tap.is(shown, "the caf\u{e9}", "an answer ends at a stop text")
tap.is(why, "stop_text", "and says so")
tap.is(answer:text(), shown, "its pieces are its text")
local all = {}
for i = 1, #said do all[i] = dllm.FINAL end
answer:update(said, all)
tap.is(table.concat(answer:cells()), "the caf\u{e9} User: no", "cells are the texts of all positions")
tap.is(#answer:cells(), #said, "one a position")
tap.is(tap.fails("states are numbers from 0 to 3", answer.update, answer, said, { 9 }).code, "invalid_argument", "by value")
tap.is(table.concat(keep), string.rep("1", 10) .. "000", "what the assistant says is marked")

-- tests/bindings/lua/settings.lua has every call; here is what the layer checks by itself.
for _, case in ipairs {
  { "a function", function() dllm.schedule(function(t) return 1 - t end, { point = 11 }) end, "points" },
  { "a table", function() dllm.schedule { t = { 0, 1 }, alhpa = { 1, 0 } } end, "alpha" },
  { "a table with more", function() dllm.schedule { t = { 0, 1 }, alpha = { 1, 0 }, dalhpa = { 1, 1 } } end, "dalpha" },
  { "load", function() dllm.load("absent", { slot = 1 }) end, "slots" },
  { "a dtype", function() dllm.tensor("i33", { 1 }, { 1 }) end, "i32" },
} do
  local wrong = tap.fails("a misspelt name raises: " .. case[1], case[2])
  tap.is(wrong.code .. ", " .. wrong.hint, "not_found, did you mean " .. case[3] .. "?", "with the nearest name")
end
tap.is(tap.fails("options that are not a table raise", dllm.schedule, function(t) return 1 - t end, 7).code,
  "invalid_argument", "as an argument error")

local schedule = dllm.schedule(function(t) return 1 - t end)
tap.ok(math.abs(schedule:alpha(0.25) - 0.75) < 1e-9, "a Lua function is a schedule")
tap.is(dllm.json.decode(dllm.json.encode { a = { 1, 2.5, "x" } }).a[2], 2.5, "JSON goes both ways")

local a, b = math.random(), math.random()
math.randomseed(0)
tap.is(math.random(), a, "math.random repeats itself")
tap.ok(a ~= b and a >= 0 and a < 1, "and draws numbers")
tap.done()
