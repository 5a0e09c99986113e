#include "lua/raw_call.h"

#include "lua/allowed.h"
#include "lua/sandbox.h"
#include "lua/state.h"

#include <lauxlib.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace dllm::lua {
namespace {

[[noreturn]] void fail_argument(lua_State* L, const Function& f, const Param& p, const char* wanted,
                                int index) {
  lua_pushfstring(L, "%s: %s must be %s, not %s", f.name.c_str(), p.name.c_str(), wanted,
                  luaL_typename(L, index));
  const std::string message = lua_tostring(L, -1);
  raise(L, "invalid_argument", message.c_str(), "");
}

int64_t check_whole(lua_State* L, const Function& f, const Param& p, int index) {
  if (lua_isboolean(L, index)) return lua_toboolean(L, index);
  int exact = 0;
  const lua_Integer value = lua_tointegerx(L, index, &exact);
  if (!exact) fail_argument(L, f, p, "a whole number", index);
  if (p.kind == ParamKind::i32 && (value < INT32_MIN || value > INT32_MAX)) {
    fail_argument(L, f, p, "a number of 32 bits", index);
  }
  return value;
}

template <class T> void append(std::vector<std::byte>& bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}

void append_number(lua_State* L, std::vector<std::byte>& bytes, Element element) {
  switch (element) {
  case Element::f64: return append(bytes, luaL_checknumber(L, -1));
  case Element::f32: return append(bytes, static_cast<float>(luaL_checknumber(L, -1)));
  case Element::i64: return append(bytes, static_cast<int64_t>(luaL_checkinteger(L, -1)));
  case Element::i32: return append(bytes, static_cast<int32_t>(luaL_checkinteger(L, -1)));
  default:
    return append(bytes, static_cast<uint8_t>(lua_isboolean(L, -1) ? lua_toboolean(L, -1)
                                                                   : luaL_checkinteger(L, -1)));
  }
}

// Reads a flat list of numbers, or a string of their bytes.
int64_t read_elements(lua_State* L, const Function& f, const Param& p, int index, Element element,
                      std::vector<std::byte>& bytes) {
  if (lua_type(L, index) == LUA_TSTRING) {
    size_t size = 0;
    const char* text = lua_tolstring(L, index, &size);
    if (size % static_cast<size_t>(element_size(element)) != 0)
      fail_argument(L, f, p, "whole elements", index);
    bytes.assign(reinterpret_cast<const std::byte*>(text),
                 reinterpret_cast<const std::byte*>(text) + size);
    return static_cast<int64_t>(size) / element_size(element);
  }
  if (!lua_istable(L, index)) fail_argument(L, f, p, "a list of numbers", index);
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    charge(L, 1);
    lua_rawgeti(L, index, i);
    if (!lua_isnumber(L, -1) && !lua_isboolean(L, -1)) {
      raise(L, "invalid_argument",
            f.name + ": " + p.name + "[" + std::to_string(i) + "] must be a number, not " +
                luaL_typename(L, -1));
    }
    append_number(L, bytes, element);
    lua_pop(L, 1);
  }
  return count;
}

// Reads the elements of a shaped array, whose type is the value of parameter dtype.
Element element_of_dtype(int32_t dtype) {
  switch (dtype) {
  case DLLM_F32: return Element::f32;
  case DLLM_F64: return Element::f64;
  case DLLM_I64: return Element::i64;
  case DLLM_U8:
  case DLLM_I8: return Element::u8;
  case DLLM_F16:
  case DLLM_BF16: return Element::byte;
  default: return Element::i32;
  }
}

// The type and size of a shaped array, from the parameters before it. bytes: -1 for a negative
// extent and for a size that does not fit.
struct Shaped {
  int32_t dtype = 0;
  int64_t bytes = 0;
};

Shaped shape_before(const Call& call, size_t end) {
  Shaped shape;
  int64_t count = 1;
  for (size_t j = 0; j < end; ++j) {
    const Param& p = call.function.params[j];
    if (p.name == "dtype") shape.dtype = call.values[j].i32;
    if (p.name != "dims") continue;
    for (size_t at = 0; at + 8 <= call.storage[j].size(); at += 8) {
      int64_t extent = 0;
      std::memcpy(&extent, call.storage[j].data() + at, 8);
      if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return {shape.dtype, -1};
    }
  }
  const bool half = shape.dtype == DLLM_F16 || shape.dtype == DLLM_BF16;
  const int64_t size = half ? 2 : element_size(element_of_dtype(shape.dtype));
  if (__builtin_mul_overflow(count, size, &shape.bytes)) shape.bytes = -1;
  return shape;
}

void set_length(lua_State* L, Call& call, const Param& p, int64_t count) {
  if (p.length < 0) return;
  Slot& slot = call.values[static_cast<size_t>(p.length)];
  if (slot.i64 >= 0 && slot.i64 != count) {
    const std::string message = call.function.name + ": the arrays have unequal lengths";
    raise(L, "invalid_argument", message.c_str(), "");
  }
  slot.i64 = count;
}

[[noreturn]] void raise_last(lua_State* L, const dllm_error* err) {
  raise(L, dllm_status_name(dllm_error_code(err)), dllm_error_message(err), dllm_error_hint(err));
}

dllm_options* options_from_table(lua_State* L, Call& call, const Param& p, int index) {
  dllm_options* options = nullptr;
  dllm_error* err = shared(L).error;
  if (dllm_options_new(p.schema.c_str(), &options, err) != DLLM_OK) raise_last(L, err);
  call.made_options.push_back(options);
  const std::string json = to_json(L, index);
  constexpr int64_t kBytesPerByte = 24; // "1," may become a text of 32 bytes, and a number
  call.option_bytes += static_cast<int64_t>(json.size()) * kBytesPerByte;
  if (dllm_options_set_json(options, json.data(), static_cast<int64_t>(json.size()), err) !=
      DLLM_OK)
    raise_last(L, err);
  return options;
}

// Raises when a run with a callback uses the object and the function may change it.
void check_idle(lua_State* L, const Call& call, const Param& p, const Box& box) {
  if (box.busy == 0 || p.is_const || call.function.name == "dllm_trainer_set_f64") return;
  raise(L, "failed_precondition",
        "the " + p.noun + " runs: " + call.function.name + " has to wait until the run ends",
        "a callback may read the object, or answer dllm.STOP");
}

void* read_handle(lua_State* L, Call& call, size_t i, int index) {
  const Param& p = call.function.params[i];
  if (p.noun == "task" && lua_isnoneornil(L, index)) return shared(L).task;
  if (p.noun == "options" && lua_istable(L, index)) {
    dllm_options* options = options_from_table(L, call, p, index);
    check_options(L, p.schema, options);
    return options;
  }
  Box* box = check_box(L, index, p.noun, p.nullable, p.name.c_str());
  if (box == nullptr) return nullptr;
  check_idle(L, call, p, *box);
  const bool takes = call.function.takes == p.name;
  if (takes && box->uses > 0)
    raise(L, "failed_precondition", "the " + p.noun + " is in use by a call that is under way");
  if (takes) call.taken = box;
  call.hold(box, i == 0);
  if (p.noun == "options") call.option_bytes += box->bytes;
  // Options are checked at their use, when all keys are set, with the schema of the parameter.
  if (p.noun == "options" && !p.schema.empty())
    check_options(L, p.schema, static_cast<dllm_options*>(box->handle));
  return box->handle;
}

const char* read_text(lua_State* L, Call& call, const Param& p, int index) {
  if (p.nullable && lua_isnoneornil(L, index)) return nullptr;
  if (lua_type(L, index) != LUA_TSTRING) fail_argument(L, call.function, p, "a string", index);
  size_t size = 0;
  const char* text = lua_tolstring(L, index, &size);
  call.text_bytes += static_cast<int64_t>(size);
  if (!is_path(p)) return text;
  if (std::strlen(text) != size)
    fail_argument(L, call.function, p, "a path without zero bytes", index);
  // A sink may have no target. Elsewhere an empty path would mean the host's current folder.
  if (size == 0 && call.function.name != "dllm_trainer_add_sink")
    check_path_given(L, call.function.name + ": " + p.name);
  const auto check = call.function.name == "dllm_dataset_open" ? check_data : check_path;
  call.paths.push_back(check(L, call.function.name + ": " + p.name, text));
  return call.paths.back().c_str();
}

} // namespace

Call::~Call() {
  for (dllm_options* options : made_options) dllm_options_release(options);
  for (dllm_buffer* buffer : buffers) dllm_buffer_release(buffer);
  for (const Held& held : held_) {
    --held.box->uses;
    held.box->busy -= held.busy;
  }
}

void Call::hold(Box* box, bool as_self) {
  const bool busy =
      as_self && std::any_of(function.params.begin(), function.params.end(),
                             [](const Param& p) { return p.kind == ParamKind::callback; });
  held_.push_back({box, busy});
  ++box->uses;
  box->busy += busy;
}

// Reads one argument of the script into its slot.
void read_argument(lua_State* L, Call& call, size_t i, int index) {
  const Param& p = call.function.params[i];
  Slot& slot = call.values[i];
  switch (p.kind) {
  case ParamKind::handle: slot.pointer = read_handle(L, call, i, index); return;
  case ParamKind::text: slot.pointer = const_cast<char*>(read_text(L, call, p, index)); return;
  case ParamKind::bytes: {
    size_t size = 0;
    if (lua_type(L, index) != LUA_TSTRING && !lua_isnoneornil(L, index))
      fail_argument(L, call.function, p, "a string", index);
    slot.pointer = const_cast<char*>(lua_tolstring(L, index, &size));
    call.text_bytes += static_cast<int64_t>(size);
    charge(L, static_cast<int64_t>(size) / 64);
    return set_length(L, call, p, static_cast<int64_t>(size));
  }
  case ParamKind::array:
    slot.pointer = nullptr;
    if (p.nullable && lua_isnoneornil(L, index)) return;
    set_length(L, call, p, read_elements(L, call.function, p, index, p.element, call.storage[i]));
    slot.pointer = data_or_null(call.storage[i]);
    return;
  case ParamKind::shaped: {
    const Shaped shape = shape_before(call, i);
    read_elements(L, call.function, p, index, element_of_dtype(shape.dtype), call.storage[i]);
    if (static_cast<int64_t>(call.storage[i].size()) != shape.bytes) {
      fail_argument(L, call.function, p,
                    ("data of " + std::to_string(shape.bytes) + " bytes").c_str(), index);
    }
    slot.pointer = data_or_null(call.storage[i]);
    return;
  }
  case ParamKind::i32:
    slot.i64 = 0;
    slot.i32 = static_cast<int32_t>(check_whole(L, call.function, p, index));
    return;
  case ParamKind::i64:
  case ParamKind::length: slot.i64 = check_whole(L, call.function, p, index); return;
  case ParamKind::f64:
    if (!lua_isnumber(L, index)) fail_argument(L, call.function, p, "a number", index);
    slot.f64 = lua_tonumber(L, index);
    return;
  case ParamKind::callback:
    slot.pointer = nullptr;
    if (lua_isnoneornil(L, index)) return;
    if (!lua_isfunction(L, index)) fail_argument(L, call.function, p, "a function", index);
    call.callback.set(L, index);
    slot.pointer = reinterpret_cast<void*>(&Callback::trampoline);
    return;
  default: return;
  }
}

} // namespace dllm::lua
