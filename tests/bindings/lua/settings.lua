-- The types of settings for editors: settings.lua ROOT. The file loads, it has the options of the library and no others,
-- and the types of the layer are declared. Whether it is up to date is the test abi_lua_settings_raw.
local root = arg[1]
local dllm = require "dllm"

local function read(path)
  local file = assert(io.open(root .. path))
  local text = file:read "*a"
  file:close()
  return text
end
local types, layer = read "/bindings/lua/dllm/settings.lua", read "/scripts/lib/dllm.lua"

-- {class = {field = type}} of the annotations of a text.
local function classes(text)
  local found, current = {}, nil
  for line in text:gmatch "[^\n]+" do
    local class, alias = line:match "^%-%-%-@class [()%a ]*(dllm[.%w]*)", line:match "^%-%-%-@alias (%S+)"
    if class or alias then
      current = {}
      found[class or alias] = current
    end
    local name, type = line:match '^%-%-%-@field %[?"?([%w_.]+)"?%]?%?? (.+)$'
    if name then current[name] = type end
  end
  return found
end

local function names_of(kind, names)
  for _, key in ipairs(dllm.schema(kind).keys) do names[key.name] = true end
  return names
end

local settings = classes(types)
local tests = {}

function tests.it_loads() assert(next((require "dllm.settings")) == nil) end

function tests.a_class_has_the_options_of_its_kind()
  local kinds = {EngineSettings = "engine", ModelSettings = "model", GeneratorSettings = "generator", SlotSettings = "slot",
                 RequestSettings = "request", DecoderSettings = "decoder", TrainerSettings = "trainer", HubSettings = "hub"}
  for class, kind in pairs(kinds) do
    local wanted, fields = names_of(kind, {}), settings["dllm." .. class]
    for _, policy in ipairs((kind == "request" or kind == "decoder") and dllm.names "policy" or {}) do
      names_of(kind .. ":" .. policy, wanted)
    end
    local count = 0
    for name in pairs(wanted) do
      local text = kind == "request" and settings["dllm.AddSettings"][name]
      assert(fields[name] or text, class .. " lacks " .. name)
      count = count + (text and 0 or 1)
    end
    for name in pairs(fields) do
      assert(wanted[name], class .. " has " .. name .. ", the library does not")
      count = count - 1
    end
    assert(count == 0, class)
  end
end

function tests.types_are_those_of_LuaLS()
  local request = settings["dllm.RequestSettings"]
  assert(request.temperature == "number" and request.steps == "integer" and request.stop == "string[]")
  assert(request.suppress == "integer[]" and request.tools == "string|table", request.tools)
  assert(settings["dllm.EngineSettings"].kind == '"cpu"|"pjrt"' and settings["dllm.HubSettings"].offline == "boolean")
end

function tests.the_layer_uses_types_that_are_declared()
  local declared, used = classes(layer), 0
  for line in layer:gmatch "%-%-%-@[^\n]+" do
    for name in line:gmatch "dllm%.%u%w+" do
      used = used + 1
      assert(declared[name] or settings[name], line)
    end
  end
  assert(used > 40, used)
end

-- A function with annotations has one for each parameter, in order; some nouns have no type yet.
function tests.annotations_are_those_of_the_parameters()
  local given, checked = {}, 0
  for line in layer:gmatch "[^\n]+" do
    local name, parameters = line:match "^%-%-%-@param ([%w_]+)", line:match "^function [%w_.:]+(%b())"
    if name then given[#given + 1] = name end
    if parameters and #given > 0 then
      local at = 1
      for parameter in parameters:gmatch "[%w_]+" do
        if parameter == given[at] then at = at + 1 end
      end
      assert(at == #given + 1, line)
      given, checked = {}, checked + 1
    end
  end
  assert(checked > 10, checked)
end

function tests.a_misspelt_setting_is_an_error()
  local stories = root .. "/scripts/recipes/stories.gguf"
  local ok, problem = pcall(dllm.load, stories, {dtyp = "f32"})
  assert(not ok and problem.hint:find "dtype", tostring(problem))
  local model = dllm.load(stories)
  for _, call in ipairs {model.generate, model.infill, model.stream} do
    ok, problem = pcall(call, model, "The <mask:2> sun", {temprature = 0.7})
    assert(not ok and problem.hint:find "temperature", tostring(problem))
  end
end

-- Each function that takes settings or options: the call, a misspelt name and the right one.
local function calls()
  local stories = root .. "/scripts/recipes/stories.gguf"
  local on = dllm.load(stories, {slots = 1})
  local model, tok = on:model(), on:tokenizer()
  local data, what = dllm.dataset_from({"the sun"}, tok), dllm.objective "mdlm"
  local loader = dllm.loader(data, {batch = 1, length = 4})
  local trainer, decoder = dllm.trainer(model, what), dllm.decoder(model, {steps = 2, gen_length = 4})
  return {
    ["dllm.engine"] = {function(x) dllm.engine(x) end, "thread", "threads"},
    ["dllm.tokenizer"] = {function(x) dllm.tokenizer(stories, x) end},
    ["dllm.train_tokenizer"] = {function(x) dllm.train_tokenizer(data, x) end, "vocab_siz", "vocab_size"},
    ["tokenizer:chat"] = {function(x) tok:chat({{role = "user", content = "a"}}, x) end, "tols", "tools"},
    ["dllm.answer"] = {function(x) dllm.answer(tok, x) end, "stp", "stop"},
    ["dllm.dataset"] = {function(x) dllm.dataset(stories, tok, x) end, "row", "rows"},
    ["dllm.dataset_from"] = {function(x) dllm.dataset_from({}, tok, x) end, "row", "rows"},
    ["dllm.loader"] = {function(x) dllm.loader(data, x) end, "bach", "batch"},
    ["dllm.model"] = {function(x) dllm.model(stories, x) end, "dtpe", "dtype"},
    ["dllm.new_model"] = {function(x) dllm.new_model(model:config(), x) end, "dtpe", "dtype"},
    ["model:save"] = {function(x) model:save("/dev/null/no", x) end, "overwrit", "overwrite"},
    ["dataset:extract_trajectories"] =
      {function(x) data:extract_trajectories(nil, "absent/order.jsonl", x) end, "metod", "method"},
    ["loader:write_anchors"] = {function(x) loader:write_anchors(model, "absent/anchors", x) end, "grup", "group"},
    ["model:add_adapter"] = {function(x) model:add_adapter("a", x) end, "rang", "rank"},
    ["model:forward"] = {function(x) model:forward(dllm.batch {ids = {"i32", {1, 1}, {1}}}, x) end},
    ["dllm.schedule"] = {function(x) dllm.schedule("nano_sqrt", x) end, "step", "steps"},
    ["dllm.objective"] = {function(x) dllm.objective("mdlm", x) end, "shif", "shift"},
    ["dllm.trainer"] = {function(x) dllm.trainer(model, what, x) end, "optimiser", "optimizer"},
    ["trainer:add_sink"] = {function(x) trainer:add_sink("jsonl", "/dev/null", x) end},
    ["trainer:save"] = {function(x) trainer:save("/dev/null/no", nil, x) end, "script_stat", "script_state"},
    ["dllm.decoder"] = {function(x) dllm.decoder(model, x) end, "step", "steps"},
    ["decoder:add"] = {function(x) decoder:add({1}, nil, x) end, "sed", "seed"},
    ["dllm.load"] = {function(x) dllm.load(stories, x) end, "slot", "slots"},
    ["dllm.generator"] = {function(x) dllm.generator(model, tok, x) end, "slot", "slots"},
    ["generator:add"] = {function(x) on:add(x) end, "temprature", "temperature"},
    ["generator:generate"] = {function(x) on:generate("the", x) end, "temprature", "temperature"},
    ["generator:infill"] = {function(x) on:infill("the <mask>", x) end, "temprature", "temperature"},
    ["generator:stream"] = {function(x) on:stream("the", x) end, "temprature", "temperature"},
    ["generator:batch"] = {function(x) on:batch({"the"}, x) end, "temprature", "temperature"},
    ["dllm.pull"] = {function(x) dllm.pull("absent/absent", x) end, "revison", "revision"},
    ["hub.pull"] = {function(x) dllm.hub.pull("absent/absent", x) end, "revison", "revision"},
    ["hub.describe"] = {function(x) dllm.hub.describe("absent/absent", x) end, "revison", "revision"},
    ["dllm.task"] = {function(x) dllm.task(x) end, "dedline", "deadline"},
    -- Other forms of dllm.schedule.
    ["a table"] = {function(x) x.t = {0, 1}; dllm.schedule(x) end, "alhpa", "alpha"},
    ["a function"] = {function(x) dllm.schedule(function(t) return 1 - t end, x) end, "point", "points"},
  }
end

function tests.a_misspelt_option_of_any_function_is_an_error()
  local table_of, found = calls(), 0
  for _, text in ipairs {layer, read "/bindings/lua/dllm.lua", read "/bindings/lua/dllm/hub.lua"} do
    for name, parameters in text:gmatch "\nfunction ([%w_.:]+)(%b())" do
      local holds = parameters:find "[( ]values[,)]" or parameters:find "[( ]options[,)]"
      local is_data = name == "dllm.tensor" or name == "batch:set" -- values are numbers there
      if holds and not is_data then
        assert(table_of[name], name .. " is not in the table")
        found = found + 1
      end
    end
  end
  assert(found > 30, found)
  for name, case in pairs(table_of) do
    for _, wrong in ipairs {"xyzxyzxyz", case[2]} do
      local ok, problem = pcall(case[1], {[wrong] = 1})
      assert(not ok, name .. " accepts " .. wrong)
      local text = name .. ": " .. tostring(problem)
      assert(problem.code == "not_found" and problem.message:find('"' .. wrong .. '"', 1, true), text)
      assert(wrong == "xyzxyzxyz" or problem.hint == "did you mean " .. case[3] .. "?", text)
    end
  end
end

function tests.values_of_other_types_are_errors_of_the_library()
  local stories = root .. "/scripts/recipes/stories.gguf"
  local on = dllm.load(stories)
  local model = on:model()
  local nan = 0 / 0
  for name, call in pairs {
    ["schedule of a number"] = function() dllm.schedule(7) end,
    ["schedule with options that are a number"] = function() dllm.schedule(function(t) return 1 - t end, 7) end,
    ["schedule of no points"] = function() dllm.schedule(function(t) return 1 - t end, {points = 1}) end,
    ["schedule of a table with options"] = function() dllm.schedule({t = {0, 1}, alpha = {1, 0}}, 7) end,
    ["scale that is a text"] = function() model:set_adapter_scale("default", 0.5) end,
    ["scale that is NaN"] = function() model:set_adapter_scale(nan) end,
    ["load with a text"] = function() dllm.load(stories, "f32") end,
    ["decoder with a number"] = function() dllm.decoder(model, 7) end,
    ["policy that is a number"] = function() dllm.decoder(model, {policy = 7}) end,
    ["request with a number"] = function() on:add(7) end,
    ["generate with a number"] = function() on:generate("a", 7) end,
    ["batch of a text"] = function() on:batch("a") end,
    ["batch with a seed that is a text"] = function() on:batch({"a"}, {seed = "x"}) end,
    ["tensor of a number"] = function() dllm.tensor(7, {1}, {1}) end,
    ["batch of numbers"] = function() dllm.batch {ids = 7} end,
  } do
    local ok, problem = pcall(call)
    assert(not ok and type(problem) == "table" and problem.code == "invalid_argument", name .. ": " .. tostring(problem))
    assert(#problem.message > 0, name)
  end
  for name, call in pairs {
    ["tensor"] = function() dllm.tensor("i33", {1}, {1}) end,
    ["batch"] = function() dllm.batch {ids = {"i33", {1}, {1}}} end,
  } do
    local ok, problem = pcall(call)
    assert(not ok and problem.code == "not_found" and problem.hint:find "i32", name .. ": " .. tostring(problem))
  end
  local ok, problem = pcall(dllm.batch, {ids = {"i32", {1}, {1}, dtype = "i64"}})
  assert(not ok and problem.code == "not_found" and problem.message:find "dtype", tostring(problem))
end

-- A save leaves the table of the caller as it is.
function tests.a_save_does_not_change_its_options()
  local on = dllm.load(root .. "/scripts/recipes/stories.gguf")
  local given = {script_state = {step = 1}}
  pcall(function() dllm.trainer(on:model(), dllm.objective "mdlm"):save("/dev/null/no", nil, given) end)
  assert(given.script_state.step == 1)
end

for name, test in pairs(tests) do
  test()
  print("ok", name)
end
