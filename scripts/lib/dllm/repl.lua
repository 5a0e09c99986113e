-- What `dllm repl` runs between its prompt and the library: chunks, printed values, completion.
local dllm = require "dllm"
local repl = {}

-- ---- printing ----
local MOST_ITEMS, MOST_DEPTH, MOST_TEXT = 20, 3, 400

local function is_name(key) return type(key) == "string" and key:match("^[%a_][%w_]*$") ~= nil end

local function text_of(value)
  local shown = #value > MOST_TEXT and value:sub(1, (utf8.offset(value, 0, MOST_TEXT + 1) or MOST_TEXT + 1) - 1) or value
  local quoted = shown:gsub('[%c"\\]', function(c)
    local short = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }
    return short[c] or string.format("\\x%02X", c:byte())
  end)
  return '"' .. quoted .. '"' .. (shown ~= value and string.format(" ... (%d bytes)", #value) or "")
end

local function sorted_keys(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end
    return type(a) < type(b)
  end)
  return keys
end

-- A value as text: {1, 2, name = "x"}; long and deep tables are cut, objects show their kind.
function repl.show(value, depth, seen)
  depth, seen = depth or 0, seen or {}
  if type(value) == "string" then return text_of(value) end
  if type(value) ~= "table" or type(getmetatable(value)) == "table" and getmetatable(value).__tostring then return tostring(value) end
  if seen[value] then return "{...}" end
  if depth >= MOST_DEPTH then return next(value) == nil and "{}" or "{ ... }" end
  seen[value] = true
  local parts, length = {}, #value
  for i = 1, math.min(length, MOST_ITEMS) do parts[i] = repl.show(value[i], depth + 1, seen) end
  if length > MOST_ITEMS then parts[#parts + 1] = string.format("... (%d items)", length) end
  local named = 0
  for _, key in ipairs(sorted_keys(value)) do
    if not (math.type(key) == "integer" and key >= 1 and key <= length) then
      named = named + 1
      if named > MOST_ITEMS then
        parts[#parts + 1] = "..."
        break
      end
      parts[#parts + 1] = (is_name(key) and key or "[" .. repl.show(key, MOST_DEPTH) .. "]") .. " = " ..
                          repl.show(value[key], depth + 1, seen)
    end
  end
  seen[value] = nil
  local line = "{" .. table.concat(parts, ", ") .. "}"
  if #line <= 96 or named == 0 or depth > 0 then return line end
  return "{\n  " .. table.concat(parts, ",\n  ") .. "\n}"
end

-- ---- running ----
-- "incomplete" when the chunk goes on in the next line; "done" when it ran. The values of an expression are printed
-- and `_` is the first of them. Errors are raised.
function repl.run(source)
  local chunk = load("return " .. source, "=repl", "t")
  if not chunk then
    local problem
    chunk, problem = load(source, "=repl", "t")
    if not chunk then
      if problem:match("<eof>'?$") then return "incomplete" end
      error({ code = "script_failed", message = problem }, 0)
    end
  end
  local values = table.pack(chunk())
  if values.n > 0 then
    _G._ = values[1]
    local shown = {}
    for i = 1, values.n do shown[i] = repl.show(values[i]) end
    print(table.concat(shown, "\t"))
  end
  return "done"
end

-- ---- completion ----
-- Which kind of options the table argument of a function takes.
local KIND_OF = {
  engine = "engine", answer = "answer", tokenizer = "tokenizer", train_tokenizer = "tokenizer_train", dataset = "dataset",
  dataset_from = "dataset", loader = "loader", model = "model", new_model = "model", trainer = "trainer",
  decoder = "decoder", objective = "objective", schedule = "schedule", add = "slot", add_sink = "sink",
  forward = "forward", save = "checkpoint",
}
-- Which registry the first text of a function names.
local NAMES_OF = { objective = "objective", schedule = "schedule", schema = "options", options = "options" }
local REGISTRIES = { "engine", "family", "objective", "options", "policy", "schedule", "sink" }

-- The brackets that are open at the end of a text, outermost first, and the quote that is open there:
-- { open = "(", callee = "decoder", at = 13, argument = 2 }.
local function open_brackets(text)
  local stack, quote, i = {}, nil, 1
  while i <= #text do
    local c = text:sub(i, i)
    if quote then
      if c == "\\" then i = i + 1
      elseif c == quote.mark then quote = nil end
    elseif c == '"' or c == "'" then quote = { mark = c, at = i }
    elseif c == "-" and text:sub(i, i + 1) == "--" then i = (text:find("\n", i, true) or #text)
    elseif c == "(" or c == "{" or c == "[" then
      stack[#stack + 1] = { open = c, callee = text:sub(1, i - 1):match("([%a_][%w_]*)%s*$"), at = i, argument = 1 }
    elseif c == ")" or c == "}" or c == "]" then stack[#stack] = nil
    elseif c == "," and #stack > 0 then stack[#stack].argument = stack[#stack].argument + 1
    end
    i = i + 1
  end
  return stack, quote
end

local function schema_keys(kind)
  local ok, schema = pcall(dllm.schema, kind)
  return ok and schema.keys or {}
end

-- The schema's keys of the innermost table: {name =, type =, choices =}; nil when it is no table of options.
local function keys_here(text, stack)
  local top = stack[#stack]
  if not top or top.open ~= "{" then return nil end
  local call = top.callee and top or stack[#stack - 1]
  if not call or (call ~= top and call.open ~= "(") then return nil end
  local kind = KIND_OF[call.callee]
  if not kind or (call.callee == "new_model" and (call == top or call.argument == 1)) then return nil end
  local inside = text:sub(call.at)
  local name = kind == "decoder" and inside:match('policy%s*=%s*["\']([%w_]+)["\']') or
               (kind == "objective" or kind == "schedule") and inside:match('^%(%s*["\']([%w_]+)["\']')
  if kind == "checkpoint" then  -- model:save and trainer:save
    local keys = schema_keys("checkpoint")
    for _, key in ipairs(schema_keys("save")) do keys[#keys + 1] = key end
    return keys
  end
  local keys = schema_keys(name and kind .. ":" .. name or kind)
  return #keys > 0 and keys or schema_keys(kind)
end

-- Objects hide their metatables from scripts; at the level "full" completion may look.
local metatable_of = debug and debug.getmetatable or getmetatable

local function fields_of(value)
  local fields, depth = {}, 0
  while depth < 8 and value ~= nil do
    if type(value) == "table" then
      for key, field in next, value do
        if is_name(key) and not key:match("^__") and fields[key] == nil then fields[key] = field end
      end
    end
    local meta = metatable_of(value)
    value = type(meta) == "table" and rawget(meta, "__index") or nil
    if type(value) ~= "table" then break end
    depth = depth + 1
  end
  return fields
end

-- dllm.train<tab>, decoder:st<tab>, pri<tab>
local function variables(word)
  local path, join, prefix = word:match("^(.-)([%.:]?)([%w_]*)$")
  local value = _G
  for name in path:gmatch("[^%.:]+") do
    value = fields_of(value)[name]
    if value == nil then return {} end
  end
  local items = {}
  for key, field in pairs(fields_of(value)) do
    if key:sub(1, #prefix) == prefix and (join ~= ":" or type(field) == "function") then
      items[#items + 1] = path .. join .. key .. (type(field) == "function" and "(" or "")
    end
  end
  if path == "" and join == "" then
    for key in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch("%a+") do
      if prefix ~= "" and key:sub(1, #prefix) == prefix then items[#items + 1] = key .. " " end
    end
  end
  return items
end

local function starting_with(prefix, names, suffix)
  local items = {}
  for _, name in ipairs(names) do
    if name:sub(1, #prefix) == prefix then items[#items + 1] = name .. (suffix or "") end
  end
  return items
end

-- What may stand inside an open quote.
local function names_in_quotes(text, stack, quote)
  local before, key = text:sub(1, quote.at - 1), nil
  key = before:match("([%a_][%w_]*)%s*=%s*$")
  if key then
    if key == "policy" then return dllm.names("policy") end
    for _, entry in ipairs(keys_here(before, stack) or {}) do
      if entry.name == key then return entry.choices or {} end
    end
    return {}
  end
  local callee = before:match("([%a_][%w_]*)%s*%(?%s*$")
  if callee == "names" then return REGISTRIES end
  return NAMES_OF[callee] and dllm.names(NAMES_OF[callee]) or {}
end

-- Completion of the end of a text: the word there and what it may become.
function repl.complete(text)
  local stack, quote = open_brackets(text)
  local word, items
  if quote then
    word = text:sub(quote.at + 1)
    items = starting_with(word, names_in_quotes(text, stack, quote), quote.mark)
  else
    word = text:match("[%w_]*$")
    local before = text:sub(1, #text - #word)
    local keys = before:match("[{,]%s*$") and keys_here(text, stack)
    if keys then
      local names = {}
      for i, key in ipairs(keys) do names[i] = key.name end
      items = starting_with(word, names, " = ")
    else
      word = text:match("[%w_%.:]*$")
      items = variables(word)
    end
  end
  table.sort(items)
  return { word = word, items = items }
end

return repl
