-- Calls and memory in a PUC Lua: over the C module dllm.native. host_jit.lua is the same for LuaJIT.
local native = require "dllm.native"

local host = {string = native.bytes, text = native.text, own = native.own, free = native.free, handle = native.handle}

-- Formats of string.pack. A byte is a part of a string.
local FORMATS = {i32 = "<i4", i64 = "<i8", u8 = "<I1", u32 = "<I4", i8 = "<i1", f32 = "<f", f64 = "<d"}
local KINDS = {status = "i", i32 = "i", i64 = "l", length = "l", f64 = "d", void = "v", callback = "f", user_data = "u"}

function host.open(path) return native.open(path) end

-- A function of the library, nil when it is not there. Its address is what host.own takes to release a handle.
function host.bind(library, fn)
  local address = native.symbol(library, fn[1])
  if not address then return nil end
  local kinds = {KINDS[fn[2]] or "p"}
  for i, p in ipairs(fn.params) do kinds[i + 1] = KINDS[p[1]] or "p" end
  kinds = table.concat(kinds)
  local call = native.call
  return function(...) return call(address, kinds, ...) end, address
end

-- Numbers as memory for a call, and back.
function host.pack(elem, list)
  local format, packed = FORMATS[elem], {}
  for i = 1, #list do packed[i] = string.pack(format, list[i]) end
  return table.concat(packed)
end

function host.unpack(elem, memory, count)
  local format, list, at = FORMATS[elem], {}, 1
  local bytes = native.bytes(memory, count * string.packsize(format))
  for i = 1, count do list[i], at = string.unpack(format, bytes, at) end
  return list
end

function host.size(elem) return elem == "byte" and 1 or string.packsize(FORMATS[elem]) end
function host.room(elem, count) return native.block(count * host.size(elem)) end
host.pointer_room, host.pointer = function() return native.block(8) end, native.pointer

-- The function and its user data as arguments of a call.
function host.enter(fn) return fn end
function host.leave() end

return host
