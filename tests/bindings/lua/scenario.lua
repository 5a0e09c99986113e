-- The ten points of ../scenario.md, for lua5.4 and luajit; ../run_scenario.py compares what this prints.
package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local dllm = require "dllm"
local make_tiny = require "tiny"

local MANY = 1000000

-- FNV-1a of 64 bits over the ids, four bytes each, low byte first. As four parts of 16 bits: LuaJIT has doubles alone.
local function fnv(ids)
  local xor = rawget(_G, "bit") and bit.bxor or load "return function(a, b) return a ~ b end"()
  local h = {0x2325, 0x8422, 0x9ce4, 0xcbf2}
  for _, id in ipairs(ids) do
    for shift = 0, 3 do
      h[1] = xor(h[1], math.floor(id / 256 ^ shift) % 256)
      -- times 0x100000001b3 = 2^40 + 0x1b3
      local parts = {h[1] * 0x1b3, h[2] * 0x1b3, h[3] * 0x1b3 + h[1] * 256, h[4] * 0x1b3 + h[2] * 256}
      local carry = 0
      for i = 1, 4 do
        parts[i] = parts[i] + carry
        h[i], carry = parts[i] % 65536, math.floor(parts[i] / 65536)
      end
    end
  end
  return string.format("%04x%04x%04x%04x", h[4], h[3], h[2], h[1])
end

-- What a call raises; it must.
local function raised(fn, ...)
  local ok, problem = pcall(fn, ...)
  assert(not ok, "nothing was raised")
  return problem
end

local function resident()
  local file = assert(io.open "/proc/self/statm")
  local pages = file:read "*l":match "^%d+ (%d+)"
  file:close()
  return tonumber(pages) * 4096
end

local function same(a, b)
  assert(#a == #b, #a .. " and " .. #b .. " elements")
  for i = 1, #a do assert(a[i] == b[i], "element " .. i) end
end

local points = {}

function points.version()
  assert(dllm.raw.abi_version() == 1)
  assert(dllm.version:find "^%d+%.%d+%.%d+$")
  assert((" " .. table.concat(dllm.names "objective", " ") .. " "):find(" mdlm ", 1, true))
end

function points.option(tiny)
  local problem = raised(dllm.decoder, tiny.model, {stepz = 4})
  assert(problem.code == "not_found")
  assert(tostring(problem):find "stepz" and tostring(problem):find "steps")
end

function points.load(tiny)
  local folder = os.tmpname()
  os.remove(folder)
  tiny.model:save(folder)
  local loaded = dllm.model(folder, nil, tiny.engine)
  same(loaded:params(), tiny.model:params())
  for _, name in ipairs(loaded:params()) do
    same(loaded:param(name):values(), tiny.model:param(name):values())
  end
  local problem = raised(dllm.model, folder .. "/nowhere", nil, tiny.engine)
  assert(problem.code == "not_found" and problem.message:find(folder .. "/nowhere", 1, true))
  os.execute("rm -r " .. folder)
end

function points.encode(tiny)
  local text = "the cat sat on the möön"
  assert(tiny.tokenizer:decode(tiny.tokenizer:encode(text)) == text)
  print("encode " .. fnv(tiny.tokenizer:encode "the cat sat on the mat"))
end

-- Decodes with a callback, and again step by step; prints the hash.
local function sample(tiny, name, temperature)
  local settings = {steps = 6, gen_length = 12, temperature = temperature}
  local pushed, pulled = dllm.decoder(tiny.model, settings), dllm.decoder(tiny.model, settings)
  for _, decoder in ipairs {pushed, pulled} do decoder:start(tiny.tokenizer:encode "the cat", 7) end
  local events, steps = 0, 0
  pushed:run(function(event) if event.kind == "decode_step" then events = events + 1 end end)
  repeat steps = steps + 1 until pulled:step() == 0
  assert(steps == events and steps > 1)
  same(pushed:ids(), pulled:ids())
  print(name .. " " .. fnv(pushed:ids()))
end

function points.decode(tiny) sample(tiny, "fresh") end

function points.train(tiny)
  local losses = {}
  local trainer = dllm.trainer(tiny.model, dllm.objective "mdlm", {lr = 3e-3})
  trainer:run(tiny.loader, 10, function(event) losses[#losses + 1] = event.loss end)
  assert(#losses == 10 and losses[10] < losses[1])
  sample(tiny, "trained", 0.8)
end

function points.cancel(tiny)
  local trainer, task = dllm.trainer(tiny.model, dllm.objective "mdlm"), dllm.task()
  local function cancel(event) if event.step >= 2 then task:cancel() end end
  local problem = raised(dllm.with_task, task, trainer.run, trainer, tiny.loader, MANY, cancel)
  assert(problem.code == "cancelled" and task:cancelled())
  local steps = trainer:metric "step"
  trainer:run(tiny.loader, 1)
  assert(steps >= 1 and steps < MANY and trainer:metric "step" == steps + 1)
end

function points.callback(tiny)
  local mine = {"mine"}
  local decoder = dllm.decoder(tiny.model, {steps = 6, gen_length = 12})
  decoder:start {}
  assert(raised(decoder.run, decoder, function() error(mine) end) == mine)
  decoder:run()
  assert(decoder:metric "open" == 0)
end

function points.close()
  local own = make_tiny(1)
  local decoder = dllm.decoder(own.model, {steps = 2, gen_length = 4})
  own.engine:close()
  own.engine:close()
  own.model:close()
  assert(raised(own.model.describe, own.model).message:find "closed")
  decoder:start {}
  decoder:run()
  assert(#decoder:ids() == 4)
  decoder:close()
  assert(raised(decoder.step, decoder).code == "invalid_argument")
end

function points.thousand(tiny)
  local function make(count)
    for number = 1, count do
      dllm.batch {ids = {"i32", {1, 3}, {number, 1, 2}}}:close()
      dllm.task():close()
      dllm.decoder(tiny.model):close()
    end
    collectgarbage()
  end
  make(100)
  local before = resident()
  make(1000)
  assert(resident() - before < 20e6, resident() - before)
end

local tiny = make_tiny()
local order = {"version", "option", "load", "encode", "decode", "train", "cancel", "callback", "close", "thousand"}
for number, name in ipairs(order) do
  points[name](tiny)
  print("point " .. number .. " " .. name .. " ok")
end
