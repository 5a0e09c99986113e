-- generator.lua ROOT: text in and text out, for lua5.4, luajit and dllm run: the same texts as the program, pieces, batches,
-- errors, cancelling, closing.
local dllm = require "dllm"
local root = arg[1]

local function content(path)
  local file = assert(io.open(root .. "/" .. path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end
local cases = dllm.json.decode(content "tests/bindings/generate_cases.json")
local MODEL = root .. "/" .. cases.model
local generator = dllm.load(MODEL, {slots = 4, dtype = "f32"}, {threads = 1})

local function raised(code, fn, ...)
  local ok, problem = pcall(fn, ...)
  assert(not ok, "nothing was raised")
  assert(problem.code == code, tostring(problem))
  return problem
end
local function is(found, wanted)
  assert(found == wanted, ("found %s, wanted %s"):format(tostring(found), tostring(wanted)))
end

local tests = {}

function tests.texts_are_those_of_the_program()
  for _, case in ipairs(cases.cases) do
    is(generator[case.call](generator, case.text, case.settings).whole, case.expect)
  end
end

function tests.a_generation_has_its_numbers()
  local made = generator:generate("Once upon a time", {length = 24, steps = 12, seed = 1})
  is(made.whole, "Once upon a time" .. made.text)
  is(tostring(made), made.text)
  is(table.concat({made.finish, made.completion_tokens, made.steps, made.nfe, made.seed, made.policy}, " "),
     "full 24 12 12 1 low_confidence")
  is(#made.ids, made.prompt_tokens + made.completion_tokens)
  is(#made.confidence, #made.ids)
  local filled = generator:infill("The<mask:3> was sad. Then<mask:5> came home.", {steps = 4})
  is(filled.text, "The" .. filled.holes[1] .. " was sad. Then" .. filled.holes[2] .. " came home.")
end

function tests.messages_go_through_the_template()
  local messages = {{role = "user", content = "Once upon "}, {role = "user", content = "a time"}}
  local chat = generator:generate(messages, {length = 8, template = "{% for m in messages %}{{ m.content }}{% endfor %}"})
  is(chat.text, generator:generate("Once upon a time", {length = 8}).text)
  raised("failed_precondition", generator.generate, generator, messages)
end

function tests.pieces_are_the_text()
  for _, case in ipairs(cases.cases) do
    if case.call == "generate" then
      local pieces, stream = {}, generator:stream(case.text, case.settings)
      for piece in stream do
        pieces[#pieces + 1] = piece.text
        is(piece.step, #pieces)
      end
      is(table.concat(pieces), stream.generation.text)
      is(stream.generation.whole, case.expect)
      pieces = {}
      generator:generate(case.text, case.settings, function(text) pieces[#pieces + 1] = text end)
      is(table.concat(pieces), stream.generation.text)
    end
  end
end

function tests.a_stream_that_is_left_early_removes_its_request()
  local stream = generator:stream("The sun", {length = 8})
  assert(stream().canvas:match "^The sun.*<mask")
  is(generator:describe().requests, 1)
  stream:close()
  is(generator:describe().requests, 0)
  is(stream(), nil)
  is(stream.generation, nil)
  if rawget(_G, "jit") then return end -- LuaJIT does not close at the end of a loop
  for _ in generator:stream("The sun", {length = 8}) do break end
end

function tests.one_failed_request_leaves_the_others()
  local every = {}
  for id = 0, generator:model():get "vocab" - 1 do every[id + 1] = id end
  local good = generator:add {prompt = "The sun", length = 8, seed = 1}
  local bad = generator:add {prompt = "The sun", length = 8, suppress = every}
  generator:run()
  assert(not pcall(generator.text, generator, bad))
  is(generator:describe(bad).finish, "failed")
  local text = generator:text(good)
  generator:remove(good)
  generator:remove(bad)
  is(text, generator:generate("The sun", {length = 8, seed = 1}).text)
  assert(not pcall(generator.generate, generator, "The sun", {length = 8, suppress = every}))
  assert(not pcall(generator:stream("The sun", {length = 8, suppress = every})))
end

function tests.a_batch_has_a_result_for_each_prompt()
  -- Nine prompts and four slots; the model allows 1024 positions.
  local prompts = {"The sun", ("The sun "):rep(1000), "A cat", "Tom", "Mia", "The sun", "A dog", "Tom", "Mia"}
  local results = generator:batch(prompts, {length = 8, steps = 4, seed = 5})
  is(#results, #prompts)
  for i, prompt in ipairs(prompts) do
    if i == 2 then
      is(results[i].code, "out_of_range")
    else
      is(results[i].text, generator:generate(prompt, {length = 8, steps = 4, seed = 4 + i}).text)
    end
  end
  is(#generator:batch {}, 0)
end

function tests.values_that_are_wrong_are_refused()
  local problem = raised("not_found", generator.generate, generator, "The sun", {temprature = 1})
  assert(tostring(problem):find("temperature", 1, true), tostring(problem))
  raised("not_found", generator.infill, generator, "The <mask>", {policy = "random", threshold = 0.5})
  raised("not_found", generator.stream, generator, "The sun", {temprature = 1})
  raised("not_found", generator.batch, generator, {"The sun", "A cat"}, {temprature = 1})
  for _, values in ipairs {{temperature = -1}, {length = -1}, {length = "8"}, {prompt = "The moon"}} do
    raised("invalid_argument", generator.generate, generator, "The sun", values)
  end
  raised("invalid_argument", generator.generate, generator, nil)
  raised("not_found", dllm.load, root .. "/nowhere")
  raised("not_found", dllm.load, MODEL, {polcy = "random"})
  raised("not_found", dllm.load, MODEL, {}, {thread = 1})
end

if dllm.with_task then -- in a program of its own, where bindings/lua makes the calls
  function tests.a_misspelt_setting_of_load_has_the_names_of_load()
    for name, hint in pairs {polcy = "did you mean policy?", dtpe = "did you mean dtype?", xyz = "dtype, heads, mask_token",
                             engine = "the third argument"} do
      local problem = raised("not_found", dllm.load, MODEL, {[name] = "random"})
      assert(problem.hint:find(hint, 1, true), tostring(problem))
    end
  end

  function tests.what_json_cannot_hold_is_named()
    local half, nan = "a\195\164b\237\160\128", 0 / 0
    for message, values in pairs {
      ["temperature is NaN: write a finite number"] = {temperature = nan},
      ["top_p is -Infinity: write a finite number"] = {top_p = -math.huge},
      ["stop, item 2: a lone surrogate at character 4"] = {stop = {"x", half}},
      ["stop, item 1: not UTF-8 at character 2"] = {stop = {"x\255"}},
      ["variables, a, item 2 is NaN: write a finite number"] = {variables = {a = {1, nan}}},
      ["stop is a function: write a number, a text, true, false or a table"] = {stop = print},
    } do
      is(raised("invalid_argument", generator.generate, generator, "The sun", values).message, message)
    end
    is(raised("invalid_argument", generator.generate, generator, half).message, "prompt: a lone surrogate at character 4")
    local said = {{role = "user", content = "Hi"}, {role = "user", content = half}}
    is(raised("invalid_argument", generator.generate, generator, said).message,
       "message 2, content: a lone surrogate at character 4")
    is(raised("invalid_argument", dllm.new_model, {dllm = {shift = nan}}).message,
       "dllm, shift is NaN: write a finite number")
  end

  function tests.a_stream_that_is_forgotten_loses_its_request()
    for _ = 1, 9 do -- more than slots
      local function leave() generator:stream("The sun", {length = 8})() end
      leave()
      collectgarbage()
      collectgarbage()
    end
    local kept = generator:stream("The sun", {length = 8})
    kept()
    kept:close()
    kept = nil
    collectgarbage()
    generator:generate("Mia", {length = 4})
  end
end

function tests.a_callback_may_stop_and_a_later_run_continues()
  local request, kinds = generator:add {prompt = "The sun", length = 8, steps = 4}, {}
  local function look(event)
    kinds[#kinds + 1] = event.kind
    if #kinds == 2 then return false end
  end
  generator:run(look)
  is(generator:describe(request).finish, "open")
  generator:run(look)
  is(table.concat(kinds, " "), "text text text text answer")
  is(#generator:decoder():ids(request), #generator:describe(request).ids)
  raised("not_found", generator.text, generator, request, "beginning")
  generator:remove(request)
  raised("not_found", generator.remove, generator, request)
end

function tests.a_task_cancels()
  if not dllm.with_task then return end -- dllm run ends a whole script
  local task = dllm.task()
  task:cancel()
  for _, call in ipairs {"generate", "stream", "infill"} do
    raised("cancelled", dllm.with_task, task, function()
      local made = generator[call](generator, "The <mask:4>")
      if call == "stream" then made() end
    end)
  end
  raised("cancelled", dllm.with_task, task, generator.batch, generator, {"The sun"})
end

function tests.a_closed_generator_raises()
  local made = dllm.generator(generator:model(), generator:tokenizer(), {policy = "random"})
  is(made:describe().policy, "random")
  made:close()
  made:close()
  assert(not pcall(made.generate, made, "The sun"))
end

local names = {}
for name in pairs(tests) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local ok, problem = pcall(tests[name])
  assert(ok, name .. ": " .. tostring(problem))
  is(generator:describe().requests, 0)
  print("ok " .. name)
end
