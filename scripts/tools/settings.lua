-- The typed settings that bindings are given, made from abi/options.json: one class a kind, and one a policy.
local files = require "files"
local json = require "json"

local settings = {}

-- steps_per_block -> StepsPerBlock
function settings.pascal(name)
  return (("_" .. name):gsub("[_.](%l?%w?)", function(first) return first:sub(1, 1):upper() .. first:sub(2) end))
end

-- Keys of sub-systems have a dot, which no language has in a name: pjrt.device -> pjrt_device.
function settings.snake(name) return (name:gsub("[.]", "_")) end

local function plain(value)
  if type(value) == "string" then return value == "" and "empty" or value end
  if type(value) == "table" then return "empty" end
  if type(value) == "boolean" then return value and "true" or "false" end
  return (json.encode(value):gsub("\n", ""))
end

local function limits(key)
  if key.choices then return "; one of " .. table.concat(key.choices, ", ") end
  local low = key.min and key.min > math.mininteger and plain(key.min)
  if not low then return "" end
  return "; " .. low .. (key.max and " to " .. plain(key.max) or " or more")
end

-- What a key is, its default and its limits, in one text.
function settings.text(key)
  return key.doc .. " Default: " .. plain(key.default) .. limits(key) .. "."
end

-- `text` in lines of at most `width` columns, each with `head` before it.
function settings.wrap(text, head, width)
  local made, current = {}, nil
  for word in text:gmatch("%S+") do
    if current and #head + #current + 1 + #word > width then
      made[#made + 1], current = head .. current, nil
    end
    current = current and current .. " " .. word or word
  end
  made[#made + 1] = head .. current
  return table.concat(made, "\n") .. "\n"
end

-- Words that a call gives in its own arguments are no settings of it.
local given = {request = {prompt = true, messages = true, infill = true}}

-- A list of {name, kind, policy, about, keys}. kind is nil for a policy, which adds its keys to requests and decoders.
function settings.classes(root)
  local data = json.decode(files.read(root .. "/abi/options.json"))
  local list = {}
  for _, kind in ipairs(data.kinds) do
    local class = {name = settings.pascal(kind.kind), kind = kind.kind, keys = {},
                   about = 'the options of kind "' .. kind.kind .. '".'}
    for _, key in ipairs(kind.keys) do
      if not (given[kind.kind] and given[kind.kind][key.name]) then class.keys[#class.keys + 1] = key end
    end
    list[#list + 1] = class
  end
  for _, policy in ipairs(data.policies) do
    list[#list + 1] = {name = settings.pascal(policy.name), policy = policy.name, keys = policy.keys,
                       about = "policy " .. policy.name .. " of a request or a decoder, with its own options."}
  end
  return list
end

return settings
