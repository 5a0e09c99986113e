-- JSON text to values and back; null is nil. A table with a first element, or without any, is a list.
local fail = require "dllm.objects".fail
local faulty = require "dllm.utf8".fault
local json = {}

local ESCAPES = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}
local UNESCAPES = {n = "\n", r = "\r", t = "\t", b = "\b", f = "\f"}

-- What JSON cannot hold is an error that names its place: the names and numbers of the tables around it.
local function wrong(place, what) fail("invalid_argument", (place == "" and "a value" or place) .. what) end

local function quote(text, place)
  local fault = faulty(text)
  if fault then wrong(place, ": " .. fault) end
  return '"' .. text:gsub('[%c"\\]', function(c) return ESCAPES[c] or string.format("\\u%04x", c:byte()) end) .. '"'
end

local function number(value, place)
  local shown = value ~= value and "NaN" or value == math.huge and "Infinity" or value == -math.huge and "-Infinity"
  if shown then wrong(place, " is " .. shown .. ": write a finite number") end
  if math.type and math.type(value) == "integer" then return tostring(value) end
  return string.format("%.17g", value)
end

local function inside(place, part) return place == "" and part or place .. ", " .. part end

local encode

local function encode_list(values, place, depth)
  local parts, item = {}, place == "messages" and "message" or inside(place, "item")
  for i = 1, #values do parts[i] = encode(values[i], item .. " " .. i, depth) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function encode_object(values, place, depth)
  local keys, parts = {}, {}
  for key in pairs(values) do
    if type(key) ~= "string" then wrong(place, ": a name must be a text, not " .. tostring(key)) end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for i, key in ipairs(keys) do
    parts[i] = quote(key, ("the name %q"):format(key)) .. ":" .. encode(values[key], inside(place, key), depth)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

function encode(value, place, depth)
  local kind = type(value)
  if kind == "string" then return quote(value, place) end
  if kind == "number" then return number(value, place) end
  if kind == "boolean" then return tostring(value) end
  if kind ~= "table" then wrong(place, " is a " .. kind .. ": write a number, a text, true, false or a table") end
  if depth > 100 then fail("invalid_argument", "a table is deeper than 100 levels, or holds itself") end
  if value[1] ~= nil then return encode_list(value, place, depth + 1) end
  return encode_object(value, place, depth + 1)
end
function json.encode(value) return encode(value, "", 0) end

-- A code point as UTF-8.
local function utf8_of(code)
  if code < 0x80 then return string.char(code) end
  local bytes, first = {}, 0x3F
  while code > first do
    table.insert(bytes, 1, string.char(0x80 + code % 64))
    code, first = math.floor(code / 64), math.floor(first / 2)
  end
  return string.char(255 - first * 2 - 1 + code) .. table.concat(bytes)
end

local function read_text(text, at)
  local parts, from = {}, at + 1
  while true do
    local stop = text:find('["\\]', from)
    if not stop then error("JSON: a text without end", 0) end
    parts[#parts + 1] = text:sub(from, stop - 1)
    if text:byte(stop) == 34 then return table.concat(parts), stop + 1 end
    local c = text:sub(stop + 1, stop + 1)
    if c == "u" then
      local code, low = tonumber(text:sub(stop + 2, stop + 5), 16), nil
      from = stop + 6
      if code >= 0xD800 and code < 0xDC00 then
        low = tonumber(text:match("^\\u(%x%x%x%x)", from), 16)
        code, from = 0x10000 + (code - 0xD800) * 1024 + low - 0xDC00, from + 6
      end
      parts[#parts + 1] = utf8_of(code)
    else
      parts[#parts + 1], from = UNESCAPES[c] or c, stop + 2
    end
  end
end

local WORDS = {["true"] = true, ["false"] = false}
local function skip(text, at) return text:find("[^ \n\r\t,:]", at) or #text + 1 end

local function read(text, at)
  at = skip(text, at)
  local c = text:sub(at, at)
  if c == '"' then return read_text(text, at) end
  if c == "[" or c == "{" then
    local made, count = {}, 0
    at = skip(text, at + 1)
    while not text:find("^[%]}]", at) do
      local key = nil
      if at > #text then error("JSON: a list or an object without end", 0) end
      if c == "{" then key, at = read_text(text, at) end
      count = count + 1
      made[key or count], at = read(text, at)
      at = skip(text, at)
    end
    return made, at + 1
  end
  local word = text:match("^[%w%.%+%-]+", at)
  if not word then error("JSON: no value at " .. at, 0) end
  if word == "null" then return nil, at + 4 end
  local value = WORDS[word]
  if value == nil then value = tonumber(word) end
  return value, at + #word
end
function json.decode(text) return (read(text, 1)) end

return json
