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

for name, test in pairs(tests) do
  test()
  print("ok", name)
end
