#pragma once
// A call from a script under way: its arguments, what they point at, and what must be given back after it.

#include "lua/callback.h"
#include "lua/manifest.h"

#include "dllm/dllm.h"

#include <lua.h>

#include <cstddef>
#include <vector>

namespace dllm::lua {

union Slot {
  void* pointer;
  int64_t i64;
  int32_t i32;
  double f64;
};

// A call under way. Lua errors are C++ exceptions here, so these members are always given back.
struct Call {
  explicit Call(const Function& f) : function(f), values(f.params.size()), storage(f.params.size()) {}
  ~Call() {
    for (dllm_options* options : made_options) dllm_options_release(options);
    for (dllm_buffer* buffer : buffers) dllm_buffer_release(buffer);
  }

  const Function& function;
  std::vector<Slot> values;
  std::vector<std::vector<std::byte>> storage;  // arrays, outs and rooms, by parameter
  std::vector<dllm_options*> made_options;
  std::vector<dllm_buffer*> buffers;            // by order of out_buffer parameters
  Callback callback;
  int taken = 0;                                // stack index of the argument that is gone after the call
};

// Reads the argument at stack `index` into parameter i; raises with the function's and the parameter's name.
void read_argument(lua_State* L, Call& call, size_t i, int index);
// Null for an empty array.
inline void* data_or_null(std::vector<std::byte>& bytes) { return bytes.empty() ? nullptr : bytes.data(); }

}  // namespace dllm::lua
