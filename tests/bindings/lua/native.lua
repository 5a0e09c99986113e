-- What Lua has besides the scenario, for lua5.4 and luajit: the collector, <close>, coroutines, callbacks inside of
-- callbacks, wrong arguments, a deadline, JSON, the random numbers of the embedded Lua.
package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local before = math.random
local dllm = require "dllm"
local tiny = require "tiny"(1)
local raw, json = dllm.raw, dllm.json

local function raised(fn, ...)
  local ok, problem = pcall(fn, ...)
  assert(not ok, "nothing was raised")
  return problem
end
local function trainer() return dllm.trainer(tiny.model, dllm.objective "mdlm") end
local function decoder(settings)
  local made = dllm.decoder(tiny.model, settings or {steps = 6, gen_length = 12})
  made:start(tiny.tokenizer:encode "the cat", 7)
  return made
end

local tests = {}

function tests.the_host_keeps_its_random_numbers() assert(math.random == before) end

function tests.the_collector_frees_what_was_not_closed()
  local function resident()
    local file = assert(io.open "/proc/self/statm")
    local pages = file:read "*l":match "^%d+ (%d+)"
    file:close()
    return tonumber(pages) * 4096
  end
  local bytes = ("\0"):rep(1000000)
  local function make(count)
    for _ = 1, count do dllm.batch {other = {"u8", {#bytes}, bytes}} end
  end
  make(10)
  local start = resident()
  make(1000)
  collectgarbage()
  assert(resident() - start < 500e6, resident() - start)
end

function tests.an_object_closes_with_its_block()
  if rawget(_G, "jit") then return end -- LuaJIT has no <close>
  local kept
  assert(load [[local made, keep = ... ; do local d <close> = made; keep(d) end]])(decoder(), function(d) kept = d end)
  assert(tostring(kept) == "dllm.decoder (closed)")
end

function tests.calls_in_coroutines()
  local made = decoder()
  local steps = coroutine.wrap(function()
    local active
    repeat
      active = made:step()
      coroutine.yield(active)
    until active == 0
  end)
  local whole, inside = decoder(), 0
  coroutine.wrap(function() whole:run(function() inside = inside + 1 end) end)()
  for active in steps do assert(active >= 0) end
  assert(inside > 1 and made:metric "open" == 0)
end

function tests.a_callback_inside_of_a_callback()
  local outer, inner, other = 0, 0, dllm.trainer(require "tiny"(1).model, dllm.objective "mdlm")
  trainer():run(tiny.loader, 2, function()
    outer = outer + 1
    local own = dllm.loader(tiny.data, {batch = 4, length = 32})
    other:run(own, 2, function() inner = inner + 1 end)
  end)
  assert(outer == 2 and inner == 4, outer .. " " .. inner)
end

function tests.a_callback_may_stop_and_may_read()
  local run, seen = trainer(), 0
  run:run(tiny.loader, 1000, function() seen = seen + 1; return seen < 3 end)
  assert(run:metric "step" == 3)
  run:run(tiny.loader, 1000, function() return dllm.STOP end)
  assert(run:metric "step" == 4)
  run:run(tiny.loader, 1, function() assert(run:metric "step" == 5) end)
  run:run(tiny.loader, 1, function() return true end)
  run:run(tiny.loader, 1, function() return dllm.CONTINUE end)
  for _, answer in ipairs {1, 0, "stop", {}} do
    local refused = raised(run.run, run, tiny.loader, 1, function() return answer end)
    assert(refused.code == "invalid_argument" and refused.message ==
           "a callback returns nothing, true, false or dllm.STOP, not " .. tostring(answer), tostring(refused))
  end
  local problem = raised(run.run, run, tiny.loader, 1, function() run:step(tiny.loader:next()) end)
  assert(problem.code == "failed_precondition" and problem.message:find "the trainer runs")
  run:step(tiny.loader:next())
end

function tests.errors_cross_many_frames()
  for _, value in ipairs {"text", 7, false} do
    local made = decoder()
    local ok, problem = pcall(made.run, made, function() error(value, 0) end)
    assert(not ok and problem == value)
  end
end

function tests.a_deadline_ends_a_call()
  local task = dllm.task {deadline = 1}
  local run = trainer()
  local problem = raised(dllm.with_task, task, function() run:run(tiny.loader, 1e9) end)
  assert(problem.code == "deadline_exceeded", problem)
  assert(dllm.with_task(dllm.task(), function(a, b) return a + b end, 1, 2) == 3)
  run:run(tiny.loader, 1) -- no task is left behind
end

function tests.wrong_arguments_are_named()
  local nan = 0 / 0
  for message, fn in pairs {
    ["a deadline is a number of milliseconds or nil, not NaN"] = function() dllm.task {deadline = nan} end,
    ["a deadline is a number of milliseconds or nil, not a string"] = function() dllm.task():set_deadline "1" end,
    ["a deadline is a number of milliseconds or nil, not a boolean"] = function() dllm.task {deadline = false} end,
    ["the options of dllm.task are a table, not a number"] = function() dllm.task(1) end,
    ["takes the scale, then the name: the scale is a number, not a string"] = function()
      tiny.model:set_adapter_scale("default", 0.5)
    end,
    ["the scale is a number, not NaN"] = function() tiny.model:set_adapter_scale(nan) end,
    ["the scale is a number, not nil"] = function() tiny.model:set_adapter_scale() end,
    ["decoder must be a decoder, not nil"] = function() raw.decoder_step() end,
    ["model must be a model, not table"] = function() dllm.decoder {} end,
    ["seed must be a whole number, not number"] = function() decoder():start({}, 1.5) end,
    ["canvas must be a list of numbers, not string"] = function() decoder():add {"x"} end,
    ["dllm_decoder_ids takes 2 arguments, 5 were given"] = function() raw.decoder_ids(decoder(), 0, 1, 2, 3) end,
    ["path must be a string without zero bytes"] = function() dllm.model "a\0b" end,
    ["data must be data of 4 elements"] = function() dllm.tensor("f32", {2, 2}, {1}) end,
  } do
    local problem = raised(fn)
    assert(problem.code == "invalid_argument" and tostring(problem):find(message, 1, true), tostring(problem))
  end
end

function tests.deadlines_are_whole_and_may_be_infinite()
  for _, deadline in ipairs {1e9 + 0.5, math.huge, 2 ^ 60} do assert(not dllm.task {deadline = deadline}:cancelled()) end
  for _, deadline in ipairs {0, -1, -math.huge} do assert(dllm.task {deadline = deadline}:cancelled()) end
  local task = dllm.task {deadline = 0}
  task:set_deadline(nil)
  assert(not task:cancelled())
end

function tests.arrays_come_back()
  for dtype, values in pairs {f32 = {0.5, -2}, f64 = {0.1, 3}, i32 = {-5, 6}, u8 = {0, 255}, i64 = {-7, 2 ^ 40}, i8 = {-1, 1}} do
    local made = dllm.tensor(dtype, {2, 1}, values)
    local back = made:values()
    assert(back[1] == values[1] and back[2] == values[2] and #back == 2, dtype)
    assert(made:dims()[1] == 2 and made:dims()[2] == 1)
  end
  local alpha = dllm.schedule "linear":eval {0.25, 0.5}
  assert(math.abs(alpha[1] - 0.75) < 1e-6 and #alpha == 2)
end

function tests.json_comes_back()
  local text = '{"a":[1,2.5,-3],"b":{"c":"tab\\t quote\\" \\u00f6 \\ud83d\\ude00"},"d":true,"e":[]}'
  local value = json.decode(text)
  assert(value.b.c == 'tab\t quote" ö 😀' and value.a[2] == 2.5 and #value.e == 0 and value.d == true)
  local again = json.decode(json.encode(value))
  assert(again.b.c == value.b.c and again.a[3] == -3)
  assert(json.encode {x = 300} == '{"x":300}')
  for _, bad in ipairs {{math.huge}, {f = print}, {[true] = 1}} do raised(json.encode, bad) end
end

function tests.random_numbers_are_those_of_the_library()
  local random = dllm.random
  local k0, k1 = random.key(2 ^ 33 + 5, "mask", 3, 7)
  assert(k0 == 1939690493 and k1 == 49091047 and random.bits(k0, k1, 2 ^ 32 + 1) == 1404501749)
  local draw = random.generator(9)
  assert(string.format("%.15f %d %.15f %d", draw(), draw(100), draw(), draw(100)) ==
         "0.333180726240078 91 0.503553521026383 77") -- printed by a script inside the library
end

local names = {}
for name in pairs(tests) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  tests[name]()
  print("ok " .. name)
end
