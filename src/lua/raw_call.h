#pragma once
// Every function of the C ABI as a Lua function, made from the manifest and libffi: no glue by hand.

#include "dllm/dllm.h"
#include "dllm/event.h"
#include "lua/state.h"

#include <cstddef>
#include <lua.h>
#include <string>
#include <vector>

namespace dllm::lua {

// Pushes a table: function names without "dllm_" and constants without "DLLM_". A Lua function takes the parameters that
// are not derived, in order, and gives the results in order: value of the call, then outs. Failures raise. Options may be
// tables; a task that is not given is the one of the running call.
void push_raw(lua_State* L);

// ---- callbacks (callback.cpp) ----
// A C callback that calls a Lua function with the event as a table.

class Callback {
public:
  ~Callback();
  // Keeps the function at `index`.
  void set(lua_State* L, int index);
  // What dllm_*_run calls; user_data is the Callback. An answer of false or DLLM_STOP stops the run; an error parks
  // itself and returns DLLM_FAIL.
  static int32_t trampoline(const dllm_event* event, void* user_data);
  // Pushes the parked error, the very same object; false when there is none.
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

// A running call: its arguments, what they point at, and what is released after it. Lua errors are C++ exceptions here,
// so these members are always released.
struct Call {
  explicit Call(const Function& f)
      : function(f), values(f.params.size()), storage(f.params.size()) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The box cannot be closed until the call ends; `as_self`: it runs the call.
  void hold(Box* box, bool as_self);

  const Function& function;
  std::vector<Slot> values;
  std::vector<std::vector<std::byte>> storage; // arrays, outs and rooms, by parameter
  std::vector<std::string> paths;              // resolved; reserved, so that their texts stay
  std::vector<dllm_options*> made_options;
  std::vector<dllm_buffer*> buffers; // by order of out_buffer parameters
  std::vector<int> made;             // stack indices of the boxes for handles that the call gives
  Callback callback;
  Box* taken = nullptr;     // released by the call
  int64_t text_bytes = 0;   // of bytes and text arguments
  int64_t option_bytes = 0; // an estimate of what the options take

private:
  struct Held {
    Box* box;
    bool busy;
  };
  std::vector<Held> held_;
};

// Reads the argument at stack `index` into parameter i; raises with the function's and the parameter's name.
void read_argument(lua_State* L, Call& call, size_t i, int index);
// Null for an empty array.
inline void* data_or_null(std::vector<std::byte>& bytes) {
  return bytes.empty() ? nullptr : bytes.data();
}

// ---- memory of library objects (limits.cpp) ----

// Collects garbage before a call that makes objects: Lua's collector does not count their memory.
void collect_before(lua_State* L, const Function& function);
// Charges memory of objects other than arrays to the script.
void charge_library(lua_State* L, const Call& call);
// Raises when the script and its objects are over the limit.
void check_memory(lua_State* L, const Call& call);

} // namespace dllm::lua
