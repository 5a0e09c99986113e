-- From C types and names to the kinds of the manifest: what a machine must know to make the call.
local kinds = {}

local numbers = {["int32_t"] = "i32", ["int64_t"] = "i64", ["uint8_t"] = "u8", ["float"] = "f32",
                 ["double"] = "f64", ["dllm_status"] = "i32"}

-- A length by this name counts the elements of these parameters.
local lengths = {size = "bytes", count = "array", rank = "dims", dst_count = "dst",
                 dst_size = "dst"}

-- Functions of a host that run on any thread; other languages do not pass them.
local hooks = {allocate = true, free = true, parallel = true, log = true}

local function is_out(name) return name == "out" or name:match("^out_") ~= nil end

-- {kind, ...} from the C type alone; nil: not allowed in a public signature.
local function from_type(c, name)
  local const, handle, stars = c:match("^(c?o?n?s?t? ?)dllm_(%l+) (%*+)$")
  if handle and stars == "**" then return const == "" and {kind = "out_handle", handle = handle} end
  if handle and stars == "*" then
    return {kind = "handle", handle = handle, const = const ~= ""}
  end
  if c == "dllm_event_fn" then return {kind = "callback"} end
  local hook = c:match("^dllm_(%l+)_fn$")
  if hook and hooks[hook] then return {kind = "hook", elem = hook} end
  if c == "const char *" then return {kind = "str"} end
  if c == "const void *" then return {kind = "bytes"} end
  if c == "void *" then
    local by_name = {user_data = "user_data", dst = "dst"}
    return {kind = by_name[name] or "pointer", elem = name == "dst" and "byte" or nil}
  end
  if numbers[c] and c ~= "uint8_t" and c ~= "float" then return {kind = numbers[c]} end
  local pointed = c:match("^const ([%l%d_]+) %*$")
  if pointed and numbers[pointed] then return {kind = "array", elem = numbers[pointed]} end
  pointed = c:match("^([%l%d_]+) %*$")
  if pointed and numbers[pointed] then
    if is_out(name) then return {kind = "out_number", elem = numbers[pointed]} end
    return {kind = "dst", elem = numbers[pointed]}
  end
end

-- Pairs pointers with the parameter that counts them.
local function pair_lengths(list)
  local by_name = {}
  for i, p in ipairs(list) do by_name[p.name] = i end
  for i, p in ipairs(list) do
    local before = list[i - 1]
    if p.kind == "i64" and lengths[p.name] then
      p.kind = "length"
      p.of = {}
      if p.name == "size" and before and (before.kind == "str" or before.kind == "bytes") then
        before.kind, before.length = "bytes", p.name
      end
    end
  end
  for _, p in ipairs(list) do
    if p.name == "dims" and by_name.rank then p.length = "rank" end
    if p.name == "data" and by_name.dims then
      p.kind, p.dims, p.dtype = "shaped", "dims", "dtype"
    end
    if p.kind == "array" and not p.length and by_name.count then p.length = "count" end
    if p.kind == "dst" and not p.length then
      p.length = p.name == "dst" and (by_name.dst_count and "dst_count" or by_name.dst_size and
                                      "dst_size") or by_name.count and "count" or nil
    end
    if p.length then
      local length = list[by_name[p.length]]
      length.of[#length.of + 1] = p.name
    end
  end
end

-- Facts that only the sentence of the parameter has.
local function read_sentence(p, text, constants)
  p.doc = text
  p.null = not text:match("^not NULL") and text:match("NULL") ~= nil
  p.options = text:match('kind "(%l[%l_]*)"')
  -- The caller writes a value into an out before the call too.
  p.given = p.kind == "out_number" and text:match("before the call") ~= nil or nil
  local least = text:match("^(%d+) or more") or text:match("[,;] (%d+) or more")
  if least then p.min = math.tointeger(tonumber(least)) end
  local low, high = text:match("^(%d+) to (%d+)")
  if low then p.min, p.max = math.tointeger(tonumber(low)), math.tointeger(tonumber(high)) end
  local from, to = text:match("^one of (DLLM_[%u%d_]+) to (DLLM_[%u%d_]+)")
  if from then
    p.values = {}
    for _, c in ipairs(constants) do
      if c.group == constants[from].group and c.value >= constants[from].value and
         c.value <= constants[to].value then
        p.values[#p.values + 1] = c.value
      end
    end
  elseif text:match("^one of DLLM_") then
    p.values = {}
    for name in text:gmatch("DLLM_[%u%d_]+") do p.values[#p.values + 1] = constants[name].value end
  end
end

-- fn (from header.parse) -> list of manifest parameters; second result: the name of a bad one.
function kinds.params(fn, constants)
  local list, sentences = {}, {}
  for _, p in ipairs(fn.block and fn.block.params or {}) do sentences[p.name] = p.text end
  for i, p in ipairs(fn.params) do
    local kind = from_type(p.type, p.name)
    if not kind or p.name == "" then return nil, p end
    kind.name, kind.c = p.name, p.type
    list[i] = kind
  end
  pair_lengths(list)
  for _, p in ipairs(list) do
    if p.handle == "error" and p.name == "err" and not sentences.err then
      p.null = true
    else
      read_sentence(p, sentences[p.name] or "", constants)
    end
    p.out = p.kind == "handle" and not p.const and is_out(p.name) or nil
    if not p.c:match("%*") and p.kind ~= "callback" and p.kind ~= "hook" then p.null = nil end
  end
  return list
end

-- What a function returns.
function kinds.result(fn)
  local c = fn.result
  if c == "void" then return {kind = "void", c = c} end
  if c == "dllm_status" then return {kind = "status", c = c} end
  if c == "const char *" then return {kind = "str", c = c} end
  if c == "const void *" then return {kind = "bytes", c = c} end
  if c == "int32_t" or c == "int64_t" or c == "double" then
    return {kind = numbers[c], c = c}
  end
  local pointed = c:match("^const ([%l%d_]+) %*$")
  if pointed and numbers[pointed] then
    return {kind = "array", elem = numbers[pointed], length = "out_count", c = c}
  end
  local handle = c:match("^dllm_(%l+) %*$")
  if handle then return {kind = "handle", handle = handle, c = c} end
end

-- The Owns line as data.
function kinds.ownership(text)
  local owns = {}
  local list = text:match(", which keeps ([%l_, ]+)$")
  owns.gives = text:match("^caller owns (out[%l_]*)") or text:match("^caller owns (result)")
  owns.takes = text:match("^releases ([%l_]+)$")
  owns.lends = text:match("^result is valid (.+)$")
  local keeper, kept = text:match("^([%l_]+) keeps ([%l_]+)")
  if keeper then owns.keeper, list = keeper, kept end
  if list then
    owns.keeps = {}
    for name in list:gmatch("[%l_]+") do owns.keeps[#owns.keeps + 1] = name end
  end
  if next(owns) == nil and text ~= "nothing" then return nil end
  return owns
end

return kinds
