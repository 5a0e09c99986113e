-- What dllm repl completes and prints.
local dllm = require "dllm"
local repl = require "dllm.repl"
local tap = require "tap"

local function items(text) return table.concat(repl.complete(text).items, "|") end
local function has(text, item, what) tap.ok(("|" .. items(text) .. "|"):find("|" .. item .. "|", 1, true) ~= nil, what) end

-- Names and methods.
tap.is(items "dllm.decod", "dllm.decoder(", "a function of the library")
tap.is(repl.complete("x = dllm.decod").word, "dllm.decod", "the word is the path")
has("pri", "print(", "a global")
tap.is(items "wh", "while ", "a word of the language")
tap.is(items "nothing.here", "", "nothing for what is not there")
schedule = dllm.schedule "linear"
has("schedule:al", "schedule:alpha(", "a method of an object")
tap.is(items "schedule:al", "schedule:alpha(", "and no other")

-- Option keys from the schemas.
has("dllm.decoder(m, { ste", "steps = ", "a key of the decoder")
has("dllm.decoder(m, { steps = 4, ", "gen_length = ", "after a comma")
tap.is(repl.complete("dllm.decoder(m, { steps = 4, gen_l").word, "gen_l", "the word is the key")
has("dllm.engine { ", "threads = ", "a call with a table alone")
has("dllm.loader(d, {\n  batch = 2,\n  le", "length = ", "over lines")
tap.is(items "dllm.new_model({ ", items "{ ", "a config is no table of options")
for _, key in ipairs(dllm.schema("trainer").keys) do has("t = dllm.trainer(m, o, {", key.name .. " = ", "trainer key " .. key.name) end
has("d:add(ids, nil, { ", "seed = ", "a key of a slot")
has("dllm.decoder(f(1, 2), { x = g { 1 }, ste", "steps = ", "brackets in between")

-- Names of registries and choices, in quotes.
has('dllm.objective "', 'mdlm"', "objectives")
has("dllm.schedule('co", "cosine'", "schedules, in the quotes that were opened")
has('dllm.decoder(m, { policy = "low', 'low_confidence"', "policies")
has('dllm.schema "decoder:', 'decoder:low_confidence"', "kinds of options")
tap.is(items 'print("dllm.', "", "no names inside a text")

-- Values.
tap.is(repl.show { 1, 2, a = "x\n" }, '{1, 2, a = "x\\n"}', "a table")
tap.is(repl.show(("x"):rep(1000)):match("%((.-)%)$"), "1000 bytes", "a long text is cut")
tap.is(repl.show { { { { 1 } } } }, "{{{{ ... }}}}", "a deep table is cut")
local loop = {}
loop.self = loop
tap.is(repl.show(loop), "{self = {...}}", "a table in itself")
local many = {}
for i = 1, 100 do many[i] = i end
tap.ok(repl.show(many):find("(100 items)", 1, true) ~= nil, "a long list is cut")

-- Chunks.
tap.is(repl.run "for i = 1, 2 do", "incomplete", "a chunk that goes on")
tap.is(repl.run "x = [[", "incomplete", "a text that goes on")
tap.is(repl.run "answer = 42", "done", "a statement")
tap.is(answer, 42, "globals stay")
tap.is(repl.run "answer + 1", "done", "an expression")
tap.is(_, 43, "its value is kept")
tap.is(tap.fails("a mistake raises", repl.run, "x = = 1").code, "script_failed", "with a code")
tap.done()
