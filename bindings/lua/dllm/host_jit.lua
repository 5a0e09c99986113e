-- Calls and memory in LuaJIT: over its ffi. host_puc.lua is the same for PUC Lua.
local ffi = require "ffi"

local host = {}
local TYPES = {i32 = "int32_t[?]", i64 = "int64_t[?]", u8 = "uint8_t[?]", u32 = "uint32_t[?]", i8 = "int8_t[?]",
               f32 = "float[?]", f64 = "double[?]", byte = "uint8_t[?]"}
local POINTERS = {i32 = "const int32_t *", i64 = "const int64_t *", u8 = "const uint8_t *", u32 = "const uint32_t *",
                  i8 = "const int8_t *", f32 = "const float *", f64 = "const double *"}
local SIZES = {i32 = 4, i64 = 8, u8 = 1, u32 = 4, i8 = 1, f32 = 4, f64 = 8, byte = 1}

function host.open(path, declarations)
  local ok, library = pcall(ffi.load, path)
  if not ok then return nil, library end
  ffi.cdef(declarations)
  return library
end

local function symbol(library, name) return library[name] end

-- A C function that may call Lua back must not be compiled into a trace.
local function call_interpreted(fn, ...) return fn(...) end
jit.off(call_interpreted)

function host.bind(library, fn)
  local ok, address = pcall(symbol, library, fn[1])
  if not ok then return nil end
  local result = fn[2]
  for _, p in ipairs(fn.params) do
    if p[1] == "callback" then return function(...) return call_interpreted(address, ...) end, address end
  end
  if result == "i64" then return function(...) return tonumber(address(...)) end, address end
  if result == "status" or result == "i32" or result == "void" then return address, address end
  return function(...)
    local pointer = address(...)
    if pointer ~= nil then return pointer end -- NULL is not nil, and equal to it
  end, address
end

function host.pack(elem, list) return ffi.new(TYPES[elem], #list, list) end

function host.unpack(elem, memory, count)
  local from, list = ffi.cast(POINTERS[elem], memory), {}
  for i = 1, count do list[i] = tonumber(from[i - 1]) end
  return list
end

function host.string(pointer, size) return pointer == nil and "" or ffi.string(pointer, size) end
function host.text(pointer) return pointer ~= nil and ffi.string(pointer) or nil end
function host.size(elem) return SIZES[elem] end
function host.room(elem, count) return ffi.new(TYPES[elem], count) end
function host.pointer_room() return ffi.new("void *[1]") end
function host.pointer(room) if room[0] ~= nil then return room[0] end end

-- A table has no finalizer in LuaJIT; the pointer has.
function host.own(handle, release)
  return {handle = ffi.gc(ffi.cast("void *", handle), function(pointer) release(pointer) end), release = release}
end
function host.free(own)
  local handle = own.handle
  if handle == nil then return end
  own.handle = nil
  ffi.gc(handle, nil)
  own.release(handle)
end
function host.handle(own) return own.handle end

-- One callback for all calls: they are made on this thread, and end in the reverse order of their beginning.
local inside = {}
local trampoline
function host.enter(fn)
  if fn == nil then return nil end
  trampoline = trampoline or ffi.cast("dllm_event_fn", function(event) return inside[#inside](event) end)
  inside[#inside + 1] = fn
  return trampoline
end
function host.leave() inside[#inside] = nil end

return host
