-- The names of the settings of dllm.load.
local names = {}

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
