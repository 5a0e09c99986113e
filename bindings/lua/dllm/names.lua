-- The names of the options that calls of this package take, and of the settings of dllm.load.
local names = {}

-- How many bytes of two words differ.
local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local above = {[0] = i}
    for j = 1, #b do
      local other = a:byte(i) == b:byte(j) and 0 or 1
      above[j] = math.min(row[j] + 1, above[j - 1] + 1, row[j - 1] + other)
    end
    row = above
  end
  return row[#b]
end

local LONGEST = 256 -- bytes of a name; a longer one is not a typing error

-- The nearest name, as the library finds it; nil: each differs in more than half of the bytes.
local function nearest(word, list)
  if #word > LONGEST then return nil end
  local best, found = math.max(math.floor(#word / 2), 1) + 1, nil
  for _, name in ipairs(list) do
    local differ = distance(word, name)
    if differ < best then best, found = differ, name end
  end
  return found
end

-- A value in words: NaN, a string, a number.
local function shown(value)
  if value ~= value then return "NaN" end
  return value == nil and "nil" or "a " .. type(value)
end

-- Raises for options that are not a table, and for a name that is not in the list. nil: no options.
function names.check(dllm, call, values, list)
  if values == nil then return end
  if type(values) ~= "table" then
    dllm.raw.fail("invalid_argument", ("the options of %s are a table, not %s"):format(call, shown(values)))
  end
  for name in pairs(values) do
    local known = false
    for _, one in ipairs(list) do known = known or one == name end
    if not known then
      local near = type(name) == "string" and nearest(name, list)
      dllm.raw.fail("not_found", ('there is no option named "%s" of %s'):format(tostring(name), call),
                    near and "did you mean " .. near .. "?" or "the names are " .. table.concat(list, ", "))
    end
  end
end

-- Raises for a value that is not a number, or NaN. what: a sentence about the value, without its end.
function names.check_number(dllm, value, what)
  if type(value) == "number" and value == value then return end
  dllm.raw.fail("invalid_argument", ("%s, not %s"):format(what, shown(value)))
end

-- The hint of the library for an unknown setting of a kind.
local function hint_for(dllm, kind, name)
  local ok, problem = pcall(dllm.options, kind, {[name] = 0})
  return not ok and problem.hint or ""
end

-- Raises for a setting that dllm.load does not have: with the nearest name of one of its kinds, or all its names.
function names.check_load(dllm, values)
  local known, list = {}, {}
  for _, kind in ipairs {"generator", "model"} do
    for _, key in ipairs(dllm.schema(kind).keys) do
      known[key.name] = true
      list[#list + 1] = key.name
    end
  end
  table.sort(list)
  for name in pairs(values or {}) do
    if not known[name] then
      local hint = "the names are " .. table.concat(list, ", ")
      for _, kind in ipairs {"generator", "model"} do
        local near = hint_for(dllm, kind, name)
        if near:find "^did you mean" then hint = near; break end
      end
      if name == "engine" then hint = "settings of the engine are the third argument" end
      dllm.raw.fail("not_found", ('there is no option named "%s" of kind model or generator'):format(tostring(name)), hint)
    end
  end
end

return names
