-- Writes abi/options.json: the options of the kinds that bindings have typed settings for, as the library has them.
--   dllm run scripts/tools/options.lua ROOT [--check]
-- `policies` has the keys that a policy adds to those of the kinds request and decoder.
local dllm = require "dllm"
local root, check = arg[1] or ".", arg[2] == "--check"
package.path = root .. "/scripts/tools/?.lua;" .. package.path
local files = require "files"
local json = require "json"

local kinds = {"engine", "model", "adapter", "generator", "request", "decoder", "slot", "queue", "submission",
               "trainer", "hub"}
local order = {"name", "type", "elem", "default", "min", "max", "choices", "json", "doc", "kind", "keys"}

-- One key of a schema. A whole number has the bounds that are whole numbers too.
local function entry(key)
  local made = json.object()
  for _, field in ipairs(order) do made[field] = key[field] end
  if key.type == "i64" then
    made.min, made.max = math.tointeger(key.min), math.tointeger(key.max)
  end
  return made
end

local function keys_of(kind, without)
  local list, names = {}, {}
  for _, key in ipairs(dllm.schema(kind).keys) do
    names[key.name] = true
    if not (without and without[key.name]) then list[#list + 1] = entry(key) end
  end
  return list, names
end

local made = {kinds = {}, policies = {}}
for _, kind in ipairs(kinds) do made.kinds[#made.kinds + 1] = {kind = kind, keys = keys_of(kind)} end
local _, common = keys_of("request")
for _, name in ipairs(dllm.names("policy")) do
  made.policies[#made.policies + 1] = {name = name, keys = keys_of("request:" .. name, common)}
end
if not files.put(root .. "/abi/options.json", json.encode(made, order), check) and check then
  io.stderr:write("options: abi/options.json differs from the library; run dllm run scripts/tools/options.lua .\n")
  os.exit(1)
end
