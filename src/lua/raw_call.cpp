#include "lua/raw_call.h"

#include "lua/sandbox.h"
#include "lua/state.h"

#include <ffi.h>
#include <lauxlib.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace dllm::lua {
namespace {

ffi_type* ffi_type_of(const Param& param) {
  switch (param.kind) {
  case ParamKind::i32: return &ffi_type_sint32;
  case ParamKind::i64:
  case ParamKind::length: return &ffi_type_sint64;
  case ParamKind::f64: return &ffi_type_double;
  default: return &ffi_type_pointer;
  }
}

ffi_type* ffi_type_of(ResultKind kind) {
  switch (kind) {
  case ResultKind::status:
  case ResultKind::i32: return &ffi_type_sint32;
  case ResultKind::i64: return &ffi_type_sint64;
  case ResultKind::nothing: return &ffi_type_void;
  default: return &ffi_type_pointer;
  }
}

// Pushes an empty box before the call, so that no memory is needed for a handle that the call
// returns.
void make_box(lua_State* L, Call& call, const std::string& noun) {
  luaL_checkstack(L, 8, "too many results");
  push_box(L, noun, nullptr);
  call.made.push_back(lua_gettop(L));
}

// Fills an array with `count` zeros; raises when the call may not allocate as much.
void fill_room(lua_State* L, Call& call, size_t i, int64_t count) {
  const int64_t size = element_size(call.function.params[i].element), room = room_left(shared(L));
  if (count > room / size) {
    raise(L, "resource_exhausted",
          call.function.name + ": room for " + std::to_string(count) + " elements, " +
              std::to_string(room) + " bytes are left",
          "close objects that are not needed, or raise option memory_limit");
  }
  call.storage[i].assign(static_cast<size_t>(count * size), std::byte{0});
  call.values[i].pointer = data_or_null(call.storage[i]);
}

// Prepares the parameters that are not arguments of the script: outs, arrays for results, the
// error.
void prepare_derived(lua_State* L, Call& call) {
  for (const Param& p : call.function.params) {
    if (p.kind == ParamKind::out_handle) make_box(L, call, p.noun);
  }
  if (call.function.result == ResultKind::handle) make_box(L, call, call.function.result_noun);
  for (size_t i = 0; i < call.function.params.size(); ++i) {
    const Param& p = call.function.params[i];
    Slot& slot = call.values[i];
    switch (p.kind) {
    case ParamKind::out_handle:
    case ParamKind::out_number:
      call.storage[i].assign(8, std::byte{0});
      slot.pointer = call.storage[i].data();
      break;
    case ParamKind::out_buffer:
      call.buffers.push_back(dllm_buffer_new());
      slot.pointer = call.buffers.back();
      break;
    case ParamKind::user_data: slot.pointer = &call.callback; break;
    case ParamKind::error: slot.pointer = shared(L).error; break;
    case ParamKind::dst:
      fill_room(L, call, i, std::max<int64_t>(call.values[static_cast<size_t>(p.length)].i64, 0));
      break;
    default: break;
    }
  }
  for (size_t i = 0; i < call.function.params.size(); ++i) {
    if (call.function.params[i].kind == ParamKind::length && call.values[i].i64 < 0)
      call.values[i].i64 = 0;
  }
}

Slot invoke(lua_State* L, Call& call) {
  const size_t count = call.function.params.size();
  std::vector<ffi_type*> types(count);
  std::vector<void*> arguments(count);
  for (size_t i = 0; i < count; ++i) {
    types[i] = ffi_type_of(call.function.params[i]);
    arguments[i] = &call.values[i];
  }
  ffi_cif cif;
  if (ffi_prep_cif(&cif, FFI_DEFAULT_ABI, static_cast<unsigned>(count),
                   ffi_type_of(call.function.result), types.data()) != FFI_OK) {
    raise(L, "internal", "a call could not be prepared", "");
  }
  union {
    ffi_arg word;
    int64_t i64;
    void* pointer;
  } result{};
  ffi_call(&cif, call.function.address, &result, arguments.data());
  Slot slot{};
  slot.i64 = call.function.result == ResultKind::i32 || call.function.result == ResultKind::status
                 ? static_cast<int32_t>(result.word)
                 : result.i64;
  return slot;
}

void push_elements(lua_State* L, const std::byte* data, int64_t count, Element element) {
  if (element == Element::byte) {
    lua_pushlstring(L, reinterpret_cast<const char*>(data), static_cast<size_t>(count));
    return;
  }
  lua_createtable(L, static_cast<int>(count), 0);
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* at = data + i * element_size(element);
    switch (element) {
    case Element::f32: {
      float v;
      std::memcpy(&v, at, 4);
      lua_pushnumber(L, static_cast<double>(v));
      break;
    }
    case Element::f64: {
      double v;
      std::memcpy(&v, at, 8);
      lua_pushnumber(L, v);
      break;
    }
    case Element::i64: {
      int64_t v;
      std::memcpy(&v, at, 8);
      lua_pushinteger(L, v);
      break;
    }
    case Element::i32: {
      int32_t v;
      std::memcpy(&v, at, 4);
      lua_pushinteger(L, v);
      break;
    }
    default: lua_pushinteger(L, static_cast<lua_Integer>(static_cast<uint8_t>(*at)));
    }
    lua_rawseti(L, -2, i + 1);
  }
}

// Pushes the box at a stack index, which was made before the call, with the handle.
void push_filled(lua_State* L, int index, void* handle) {
  fill_box(L, *static_cast<Box*>(lua_touserdata(L, index)), handle);
  lua_pushvalue(L, index);
}

int push_results(lua_State* L, Call& call, Slot result) {
  const int before = lua_gettop(L);
  const Function& f = call.function;
  if (f.result == ResultKind::i32 || f.result == ResultKind::i64) lua_pushinteger(L, result.i64);
  if (f.result == ResultKind::text) lua_pushstring(L, static_cast<const char*>(result.pointer));
  if (f.result == ResultKind::handle) push_filled(L, call.made.back(), result.pointer);
  size_t buffer = 0, made = 0;
  for (size_t i = 0; i < f.params.size(); ++i) {
    const Param& p = f.params[i];
    if (p.kind == ParamKind::out_handle) {
      void* handle = nullptr;
      std::memcpy(&handle, call.storage[i].data(), sizeof handle);
      push_filled(L, call.made[made++], handle);
    } else if (p.kind == ParamKind::out_buffer) {
      const dllm_buffer* text = call.buffers[buffer++];
      lua_pushlstring(L, static_cast<const char*>(dllm_buffer_data(text)),
                      static_cast<size_t>(dllm_buffer_size(text)));
    } else if (p.kind == ParamKind::out_number && p.name != "out_count") {
      push_elements(L, call.storage[i].data(), 1, p.element);
      lua_rawgeti(L, -1, 1);
      lua_remove(L, -2);
    } else if (p.kind == ParamKind::dst) {
      const auto size = static_cast<int64_t>(call.storage[i].size());
      push_elements(L, call.storage[i].data(), size / element_size(p.element), p.element);
    }
  }
  return lua_gettop(L) - before;
}

// Makes room for an array whose size the library returns in out_count. The function is called once
// without room and again with room; returns true when it must be called again.
bool make_room(lua_State* L, Call& call, dllm_status status) {
  if (status != DLLM_OUT_OF_RANGE && status != DLLM_OK) return false;
  int out_count = -1, room = -1;
  for (size_t i = 0; i < call.function.params.size(); ++i) {
    const Param& p = call.function.params[i];
    if (p.name == "out_count") out_count = static_cast<int>(i);
    if (p.kind == ParamKind::dst) room = static_cast<int>(i);
  }
  if (out_count < 0 || room < 0) return false;
  int64_t need = 0;
  std::memcpy(&need, call.storage[static_cast<size_t>(out_count)].data(), sizeof need);
  const Param& p = call.function.params[static_cast<size_t>(room)];
  if (need * element_size(p.element) ==
      static_cast<int64_t>(call.storage[static_cast<size_t>(room)].size()))
    return false;
  fill_room(L, call, static_cast<size_t>(room), need);
  call.values[static_cast<size_t>(p.length)].i64 = need;
  return true;
}

int call_checked(lua_State* L, const Function& function) {
  check_function(L, function);
  collect_before(L, function);
  Call call(function);
  call.paths.reserve(function.params.size());
  for (size_t i = 0; i < function.params.size(); ++i) {
    if (function.params[i].kind == ParamKind::length) call.values[i].i64 = -1;
  }
  int index = 0;
  for (size_t i = 0; i < function.params.size(); ++i) {
    if (!function.params[i].derived) read_argument(L, call, i, ++index);
  }
  if (lua_gettop(L) > index) {
    raise(L, "invalid_argument",
          function.name + " takes " + std::to_string(index) + " arguments, " +
              std::to_string(lua_gettop(L)) + " were given");
  }
  if (function.name == "dllm_source_add" && call.values.at(4).i32 != 0) {
    raise(L, "invalid_argument", "dllm_source_add: a script's bytes are copied, lend must be 0");
  }
  if (function.name == "dllm_engine_set_i64") {
    const auto* key = static_cast<const char*>(call.values[1].pointer);
    check_engine_value(L, static_cast<const Box*>(lua_touserdata(L, 1))->is_hosts, key,
                       call.values[2].i64);
  }
  // The row is tokenized in one call, which a task cannot stop.
  constexpr int64_t kMostRow = int64_t{1} << 20;
  if (function.name == "dllm_dataset_add" && shared(L).level != Level::full &&
      call.text_bytes > kMostRow) {
    raise(L, "invalid_argument",
          "dllm_dataset_add: a row has " + std::to_string(call.text_bytes) +
              " bytes, below level full it may have at most " + std::to_string(kMostRow),
          "give the text in several rows");
  }
  check_memory(L, call);
  prepare_derived(L, call);
  Slot result = invoke(L, call);
  if (function.result == ResultKind::status) {
    while (make_room(L, call, result.i32)) result = invoke(L, call);
    if (result.i32 != DLLM_OK) {
      look(L); // a call that ended because of the task ends the script
      if (call.callback.rethrow(L)) return lua_error(L);
      const dllm_error* err = shared(L).error;
      raise(L, dllm_status_name(result.i32), dllm_error_message(err), dllm_error_hint(err));
    }
  }
  if (call.taken != nullptr) call.taken->handle = nullptr;
  const int results = push_results(L, call, result);
  charge_library(L, call);
  look(L);
  return results;
}

int call_function(lua_State* L) {
  const auto& function = *static_cast<const Function*>(lua_touserdata(L, lua_upvalueindex(1)));
  std::string failed;
  try {
    return call_checked(L, function);
    // No memory for an argument; Lua's own exceptions are not of type std::exception.
  } catch (const std::exception& e) {
    failed = function.name + ": " + e.what();
  }
  raise(L, "resource_exhausted", failed);
}

} // namespace

void push_raw(lua_State* L) {
  lua_newtable(L);
  lua_pushcfunction(L, [](lua_State* inner) -> int {
    raise(inner, luaL_checkstring(inner, 1), luaL_checkstring(inner, 2),
          luaL_checkstring(inner, 3));
  });
  lua_setfield(L, -2, "fail");
  for (const Function& function : manifest().functions) {
    if (function.result == ResultKind::array)
      continue; // arrays of events: Lua gets events as tables
    // The runner owns the error and the task of a call. A script gets errors as tables and cannot
    // cancel its host.
    if (function.name.starts_with("dllm_error_") || function.name.starts_with("dllm_task_"))
      continue;
    lua_pushlightuserdata(L, const_cast<Function*>(&function));
    lua_pushcclosure(L, call_function, 1);
    // The name without "dllm_" or "dllmx_".
    lua_setfield(L, -2, function.name.c_str() + function.name.find('_') + 1);
  }
  for (const Constant& constant : manifest().constants) {
    lua_pushinteger(L, constant.value);
    lua_setfield(L, -2, constant.name.c_str() + 5); // without "DLLM_"
  }
}

} // namespace dllm::lua
