#pragma once
// push_raw() makes a Lua function of every function of the C ABI, with the manifest and libffi.

#include "dllm/dllm.h"
#include "dllm/event.h"
#include "lua/state.h"

#include <cstddef>
#include <lua.h>
#include <string>
#include <vector>

namespace dllm::lua {

// Pushes a table with functions, by names without "dllm_", and constants, by names without "DLLM_".
// A Lua function takes the parameters that are not derived, in order. It returns the value of the
// call, then the outs in order, and raises failures. Options may be tables. An absent task is the
// task of the running call.
void push_raw(lua_State* L);

// ---- callbacks (callback.cpp) ----

// A C callback that calls a Lua function with the event as a table.
class Callback {
public:
  ~Callback();
  // Keeps the function at stack `index`.
  void set(lua_State* L, int index);
  // dllm_*_run calls this function; user_data is the Callback. It returns DLLM_STOP when the Lua
  // function returns false or DLLM_STOP. When the Lua function raises an error, it stores the error
  // and returns DLLM_FAIL.
  static int32_t trampoline(const dllm_event* event, void* user_data);
  // Pushes the stored error, the same Lua object, and returns true; false without an error.
  bool rethrow(lua_State* L);

private:
  lua_State* state_ = nullptr;
  bool failed_ = false;
  int function_ = LUA_NOREF_, error_ = LUA_NOREF_;
  static constexpr int LUA_NOREF_ = -2; // lauxlib's LUA_NOREF
};

// ---- arguments (raw_arguments.cpp) ----

union Slot {
  void* pointer;
  int64_t i64;
  int32_t i32;
  double f64;
};

// A running call: its arguments, the memory that they point to, and the objects to release after
// the call. Lua errors are C++ exceptions here, so the destructor always runs.
struct Call {
  explicit Call(const Function& f)
      : function(f), values(f.params.size()), storage(f.params.size()) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Prevents the box from being closed until the call ends. as_self: the call is a function of this
  // object.
  void hold(Box* box, bool as_self);

  const Function& function;
  std::vector<Slot> values;
  std::vector<std::vector<std::byte>> storage; // by parameter: arrays, outs, memory for results
  std::vector<std::string> paths; // resolved paths; reserved, so that the texts do not move
  std::vector<dllm_options*> made_options;
  std::vector<dllm_buffer*> buffers; // in the order of the out_buffer parameters
  std::vector<int> made;             // stack indices of the boxes for handles that the call returns
  Callback callback;
  Box* taken = nullptr;     // the box whose handle the call releases
  int64_t text_bytes = 0;   // bytes of arguments of kinds bytes and text
  int64_t option_bytes = 0; // estimated bytes of the options

private:
  struct Held {
    Box* box;
    bool busy;
  };
  std::vector<Held> held_;
};

// Reads the argument at stack `index` into parameter i. Raises errors that name the function and
// the parameter.
void read_argument(lua_State* L, Call& call, size_t i, int index);
// Returns the data, or null for an empty array.
inline void* data_or_null(std::vector<std::byte>& bytes) {
  return bytes.empty() ? nullptr : bytes.data();
}

// ---- memory of library objects (limits.cpp) ----

// Collects garbage before a call that makes objects, because Lua's collector does not count their
// memory.
void collect_before(lua_State* L, const Function& function);
// Charges the memory of objects, without arrays, to the script.
void charge_library(lua_State* L, const Call& call);
// Raises when the memory of the script and its objects is above the limit.
void check_memory(lua_State* L, const Call& call);

} // namespace dllm::lua
