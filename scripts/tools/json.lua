-- JSON for our tools: decode(text), encode(value, order). What holds no table goes on one line.
local json = {}

json.null = setmetatable({}, {__tostring = function() return "null" end})
local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}
local unescapes = {n = "\n", r = "\r", t = "\t", b = "\b", f = "\f"}

local function quote(text)
  return '"' .. text:gsub('[%c"\\]', function(c)
    return escapes[c] or string.format("\\u%04x", c:byte())
  end) .. '"'
end

-- An empty table is an array unless json.object() made it.
local object_mark = {}
function json.object(t) return setmetatable(t or {}, object_mark) end
local function is_array(t)
  return getmetatable(t) ~= object_mark and (#t > 0 or next(t) == nil)
end

-- Keys named in `order` come first and in that order, the rest by the alphabet.
local function sorted_keys(t, rank)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    local ra, rb = rank[a] or math.huge, rank[b] or math.huge
    if ra ~= rb then return ra < rb end
    return a < b
  end)
  return keys
end

-- The fewest digits that read back as the same number.
local function float(value)
  for digits = 15, 17 do
    local text = string.format("%." .. digits .. "g", value)
    if tonumber(text) == value then return text end
  end
end

local write

local function pieces(value, rank, indent)
  local list = {}
  if is_array(value) then
    for i, item in ipairs(value) do list[i] = write(item, rank, indent) end
    return list, "[", "]"
  end
  for i, key in ipairs(sorted_keys(value, rank)) do
    list[i] = quote(key) .. ": " .. write(value[key], rank, indent)
  end
  return list, "{", "}"
end

function write(value, rank, indent)
  if value == json.null then return "null" end
  local kind = type(value)
  if kind == "string" then return quote(value) end
  if kind == "number" and math.type(value) == "float" then return float(value) end
  if kind ~= "table" then return tostring(value) end
  local inner = indent .. "  "
  local list, open, close = pieces(value, rank, inner)
  local flat = true
  for _, item in pairs(value) do flat = flat and type(item) ~= "table" end
  if flat then return open .. table.concat(list, ", ") .. close end
  return open .. "\n" .. inner .. table.concat(list, ",\n" .. inner) .. "\n" .. indent .. close
end

function json.encode(value, order)
  local rank = {}
  for i, key in ipairs(order or {}) do rank[key] = i end
  return write(value, rank, "") .. "\n"
end

local function fail(text, at, what)
  local _, line = text:sub(1, at):gsub("\n", "")
  error(string.format("JSON line %d: %s", line + 1, what), 0)
end

local read

local function read_string(text, at)
  local out, from = {}, at + 1
  while true do
    local stop = text:find('["\\]', from) or fail(text, at, "text without end")
    out[#out + 1] = text:sub(from, stop - 1)
    if text:sub(stop, stop) == '"' then return table.concat(out), stop + 1 end
    local c = text:sub(stop + 1, stop + 1)
    if c == "u" then
      out[#out + 1] = utf8.char(tonumber(text:sub(stop + 2, stop + 5), 16))
      from = stop + 6
    else
      out[#out + 1] = unescapes[c] or c
      from = stop + 2
    end
  end
end

local function skip(text, at) return text:find("[^ \n\r\t]", at) or #text + 1 end

local function read_items(text, at, close, read_item)
  at = skip(text, at + 1)
  if text:sub(at, at) == close then return at + 1 end
  while true do
    at = skip(text, read_item(at))
    local c = text:sub(at, at)
    if c == close then return at + 1 end
    if c ~= "," then fail(text, at, "expected , or " .. close) end
    at = skip(text, at + 1)
  end
end

function read(text, at)
  at = skip(text, at)
  local c = text:sub(at, at)
  if c == '"' then return read_string(text, at) end
  if c == "[" then
    local list = {}
    return list, read_items(text, at, "]", function(from)
      list[#list + 1], from = read(text, from)
      return from
    end)
  elseif c == "{" then
    local map = json.object()
    return map, read_items(text, at, "}", function(from)
      local key
      key, from = read_string(text, from)
      from = skip(text, from)
      if text:sub(from, from) ~= ":" then fail(text, from, "expected :") end
      map[key], from = read(text, from + 1)
      return from
    end)
  end
  local word = text:match("^[%w%.%+%-]+", at) or fail(text, at, "expected a value")
  local words = {["true"] = true, ["false"] = false, null = json.null}
  local value = words[word]
  if value == nil then value = math.tointeger(tonumber(word)) or tonumber(word) end
  if value == nil then fail(text, at, "bad value " .. word) end
  return value, at + #word
end

function json.decode(text)
  local value, at = read(text, 1)
  if skip(text, at) <= #text then fail(text, at, "text after the value") end
  return value
end

return json
