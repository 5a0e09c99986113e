-- Every function of the C ABI as a Lua function, made from functions.lua: what src/lua is for scripts inside the library.
--
-- A function takes the parameters that are not derived, in order, and gives the results in order: value of the call, then
-- outs. Failures raise. Options may be tables; a task that is not given is raw.task, if that is set.
local made = require "dllm.functions"
local json = require "dllm.json"
local objects = require "dllm.objects"
local host = require(rawget(_G, "jit") and "dllm.host_jit" or "dllm.host_puc")
local library = require "dllm.library"(host)

local raw = {json = json, fail = objects.fail, task = nil}
for name, value in pairs(made.constants) do raw[name] = value end

-- What a callback answers. Numbers would be returned by accident.
local function named(name) return setmetatable({}, {__tostring = function() return "dllm." .. name end}) end
raw.CONTINUE, raw.STOP = named "CONTINUE", named "STOP"
local STOPS = {[false] = true, [raw.STOP] = true}
local GOES_ON = {[true] = true, [raw.CONTINUE] = true}

local function c(name) return library[name].call end
local error_handle = c "dllm_error_new"()
local event_describe = library.dllm_event_describe
local unpack = table.unpack or unpack
local DERIVED = {out_buffer = true, out_handle = true, out_number = true, user_data = true, error = true, dst = true,
                 length = true}
-- The elements of a shaped array by its dtype; f16 and bf16 are bytes.
local ELEMENTS = {[raw.F32] = "f32", [raw.F64] = "f64", [raw.I32] = "i32", [raw.I64] = "i64", [raw.U8] = "u8",
                  [raw.I8] = "i8", [raw.U32] = "u32", [raw.F16] = "half", [raw.BF16] = "half"}

local classes, releases = {}, {}
for _, fn in ipairs(made.functions) do
  local noun = fn[1]:match "^dllm_(%w+)_release$"
  if noun then
    classes[noun], releases[noun] = objects.class(noun, host), library[fn[1]].address
    raw["class_" .. noun] = classes[noun]
  end
end

local function box(noun, pointer)
  if pointer == nil then return nil end
  collectgarbage "step" -- Lua does not see how much memory an object of the library has
  return setmetatable({own = host.own(pointer, releases[noun])}, classes[noun])
end

local function raise(status)
  local text = function(name) return host.text(c(name)(error_handle)) or "" end
  objects.fail(host.text(c "dllm_status_name"(status)), text "dllm_error_message", text "dllm_error_hint")
end

local function text_of(buffer)
  return host.string(c "dllm_buffer_data"(buffer), tonumber(c "dllm_buffer_size"(buffer)))
end

local function options_from(schema, values)
  local room = host.pointer_room()
  local status = c "dllm_options_new"(schema, room, error_handle)
  if status ~= raw.OK then raise(status) end
  local made_options = box("options", host.pointer(room))
  local text = json.encode(values)
  status = c "dllm_options_set_json"(host.handle(made_options.own), next(values) == nil and "{}" or text,
                                     next(values) == nil and 2 or #text, error_handle)
  if status ~= raw.OK then raise(status) end
  return made_options
end

local function wrong(fn, p, wanted, value)
  objects.fail("invalid_argument", string.format("%s: %s must be %s, not %s", fn[1], p[2], wanted, type(value)))
end

-- A list of numbers, or a string of their bytes, as memory and count.
local function elements(fn, p, elem, value)
  local size = elem == "half" and 2 or host.size(elem)
  if type(value) == "string" then
    if #value % size ~= 0 then wrong(fn, p, "whole elements", value) end
    return value, #value / size
  end
  if type(value) ~= "table" or elem == "half" then wrong(fn, p, "a list of numbers", value) end
  local list = {}
  for i = 1, #value do
    local number = value[i]
    if type(number) == "boolean" then number = number and 1 or 0 end
    if type(number) ~= "number" or elem:find "^[iu]" and number % 1 ~= 0 then wrong(fn, p, "a list of numbers", number) end
    list[i] = elem:find "^[iu]" and math.tointeger and math.tointeger(number) or number
  end
  return host.pack(elem, list), #list
end

local READ = {}
function READ.handle(call, p, value)
  if p.noun == "task" and value == nil then value = raw.task end
  if p.noun == "options" and type(value) == "table" and getmetatable(value) ~= classes.options then
    value = options_from(p.schema, value)
    call.options[#call.options + 1] = value
  end
  call.self = call.self or value
  return objects.handle(host, classes, call.fn, p, value)
end
function READ.str(call, p, value)
  if value == nil and p.null then return nil end
  if type(value) ~= "string" or value:find("\0", 1, true) then wrong(call.fn, p, "a string without zero bytes", value) end
  return value
end
function READ.bytes(call, p, value)
  if type(value) ~= "string" then wrong(call.fn, p, "a string", value) end
  call.lengths[p.length] = #value
  return value
end
function READ.array(call, p, value)
  if value == nil and p.null then return nil end
  local memory, count = elements(call.fn, p, p.elem, value)
  local known = call.lengths[p.length]
  if known and known ~= count then objects.fail("invalid_argument", call.fn[1] .. ": the arrays have unequal lengths") end
  call.lengths[p.length] = count
  if p[2] == "dims" then
    call.count = 1
    for _, extent in ipairs(value) do call.count = call.count * extent end
  end
  return memory
end
function READ.shaped(call, p, value)
  local memory, count = elements(call.fn, p, ELEMENTS[call.dtype] or "i32", value)
  if count ~= (call.count or 1) then wrong(call.fn, p, "data of " .. (call.count or 1) .. " elements", value) end
  return memory
end
function READ.f64(call, p, value)
  if type(value) ~= "number" then wrong(call.fn, p, "a number", value) end
  return value
end
local function whole(call, p, value)
  if type(value) == "boolean" then value = value and 1 or 0 end
  if type(value) ~= "number" or value % 1 ~= 0 then wrong(call.fn, p, "a whole number", value) end
  if p[2] == "dtype" then call.dtype = value end
  return math.tointeger and math.tointeger(value) or value
end
READ.i32, READ.i64, READ.length = whole, whole, whole

-- The number of an answer.
local function number_of(answer)
  if answer == nil or GOES_ON[answer] then return made.constants.CONTINUE end
  if STOPS[answer] then return made.constants.STOP end
  objects.fail("invalid_argument", "a callback returns nothing, true, false or dllm.STOP, not " .. tostring(answer))
end

-- What C calls between steps: the event as a table; false or STOP ends the run, an error is kept for later.
local function dispatcher(call, fn)
  return function(event)
    local buffer = c "dllm_buffer_new"()
    local ok, answer = pcall(function()
      local status = event_describe.call(event, buffer, error_handle)
      if status ~= raw.OK then raise(status) end
      local values = json.decode(text_of(buffer))
      values.kind = values.event
      return number_of((fn(values)))
    end)
    c "dllm_buffer_release"(buffer)
    if not ok then
      call.failure = {answer}
      return raw.FAIL
    end
    return answer
  end
end
function READ.callback(call, p, value)
  if value == nil then return nil end
  if type(value) ~= "function" then wrong(call.fn, p, "a function", value) end
  call.callback = dispatcher(call, value)
  return nil
end

-- The memory of what the library writes.
local function derive(call, i, p)
  local kind, memory = p[1], call.memory
  if kind == "error" then return error_handle end
  if kind == "out_handle" then memory[i] = host.pointer_room()
  elseif kind == "out_number" then memory[i] = host.room(p.elem, 1)
  elseif kind == "out_buffer" then memory[i] = c "dllm_buffer_new"()
  elseif kind == "dst" then memory[i] = host.room(p.elem, math.max(call.lengths[p.length] or 0, 1))
  end
  return memory[i]
end

-- The text of every buffer, which is released.
local function take_texts(call)
  local texts = {}
  for i, p in ipairs(call.fn.params) do
    if p[1] == "out_buffer" and call.memory[i] then
      texts[i] = text_of(call.memory[i])
      c "dllm_buffer_release"(call.memory[i])
    end
  end
  for _, values in ipairs(call.options) do values:close() end
  return texts
end

local function results_of(call, value, texts)
  local fn, list, count = call.fn, {}, 0
  local function add(result) count = count + 1; list[count] = result end
  if fn[2] == "i32" or fn[2] == "i64" then add(value) end
  if fn[2] == "str" then add(value ~= nil and host.text(value) or nil) end
  if fn[2] == "handle" then add(box(fn.noun, value)) end
  for i, p in ipairs(fn.params) do
    local memory = call.memory[i]
    if p[1] == "out_handle" then add(box(p.noun, host.pointer(memory)))
    elseif p[1] == "out_buffer" then add(texts[i])
    elseif p[1] == "out_number" and p[2] ~= "out_count" then add(host.unpack(p.elem, memory, 1)[1])
    elseif p[1] == "dst" then
      local size = call.lengths[p.length] or 0
      add(p.elem == "byte" and host.string(memory, size) or host.unpack(p.elem, memory, size))
    end
  end
  return unpack(list, 1, count)
end

local function invoke(call, bound, values, count)
  local fn = call.fn
  if not call.callback then return bound.call(unpack(values, 1, count)) end
  values[call.callback_at] = host.enter(call.callback)
  call.self.busy = true
  local ok, status = pcall(bound.call, unpack(values, 1, count))
  call.self.busy = nil
  host.leave()
  if not ok then error(status, 0) end
  return status, fn
end

-- Arrays whose size the library returns in out_count: called without room first, then again with room.
local function call_for_count(call, bound, values, count)
  local status = invoke(call, bound, values, count)
  local room, at = nil, nil
  for i, p in ipairs(call.fn.params) do
    if p[1] == "dst" then room = i end
    if p[2] == "out_count" then at = i end
  end
  if not (room and at) or status ~= raw.OK and status ~= raw.OUT_OF_RANGE then return status end
  local p = call.fn.params[room]
  local need = host.unpack("i64", call.memory[at], 1)[1]
  call.lengths[p.length] = need
  call.memory[room] = host.room(p.elem, math.max(need, 1))
  values[room] = call.memory[room]
  for i, other in ipairs(call.fn.params) do
    if other[2] == p.length then values[i] = need end
  end
  return invoke(call, bound, values, count)
end

-- The caller passes a length itself where it is the size of a room of bytes.
local function given_lengths(fn)
  local given = {}
  for _, p in ipairs(fn.params) do if p[1] == "dst" and p.elem == "byte" then given[p.length] = true end end
  return given
end

local function wrapper(fn)
  local bound, given, params, count = library[fn[1]], given_lengths(fn), fn.params, #fn.params
  local status_result = fn[2] == "status"
  return function(...)
    local call = {fn = fn, memory = {}, lengths = {}, options = {}}
    local values, index = {}, 0
    for i, p in ipairs(params) do
      if not DERIVED[p[1]] or given[p[2]] then
        index = index + 1
        values[i] = READ[p[1]](call, p, (select(index, ...)))
        if given[p[2]] then call.lengths[p[2]] = values[i] end
        if p[1] == "callback" then call.callback_at = i end
      end
    end
    if select("#", ...) > index then
      objects.fail("invalid_argument", fn[1] .. " takes " .. index .. " arguments, " .. select("#", ...) .. " were given")
    end
    for i, p in ipairs(params) do
      if p[1] == "length" and not given[p[2]] then values[i] = call.lengths[p[2]] or 0
      elseif DERIVED[p[1]] and p[1] ~= "length" then values[i] = derive(call, i, p) end
    end
    local value = call_for_count(call, bound, values, count)
    local texts = take_texts(call)
    if status_result and value ~= raw.OK then
      if call.failure then error(call.failure[1], 0) end
      raise(value)
    end
    return results_of(call, value, texts)
  end
end

for _, fn in ipairs(made.functions) do
  local name = fn[1]:gsub("^dllmx?_", "")
  if not name:find "_release$" and not name:find "^event_" and fn[2] ~= "bytes" then raw[name] = wrapper(fn) end
end

-- The elements of a tensor as a list of numbers; LuaJIT has no string.unpack.
function raw.tensor_list(tensor, dtype, count)
  local elem = ELEMENTS[dtype]
  local room = host.room(elem, math.max(count, 1))
  local handle = objects.handle(host, classes, {"dllm_tensor_read"}, {"handle", "tensor", noun = "tensor"}, tensor)
  local status = c "dllm_tensor_read"(handle, dtype, room, count * host.size(elem), error_handle)
  if status ~= raw.OK then raise(status) end
  return host.unpack(elem, room, count)
end

return raw
