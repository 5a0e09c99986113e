#pragma once
// A call from a script under way: its arguments, what they point at, and what must be given back after it.

#include "lua/boxes.h"
#include "lua/callback.h"
#include "lua/manifest.h"

#include "dllm/dllm.h"

#include <lua.h>

#include <cstddef>
#include <string>
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
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The box cannot be closed until the call ends; `as_self`: it runs the call.
  void hold(Box* box, bool as_self);

  const Function& function;
  std::vector<Slot> values;
  std::vector<std::vector<std::byte>> storage;  // arrays, outs and rooms, by parameter
  std::vector<std::string> paths;               // resolved; reserved, so that their texts stay
  std::vector<dllm_options*> made_options;
  std::vector<dllm_buffer*> buffers;            // by order of out_buffer parameters
  std::vector<int> made;                        // stack indices of the boxes for handles that the call gives
  Callback callback;
  Box* taken = nullptr;                         // gone after the call
  int64_t text_bytes = 0;                       // of bytes and text arguments
  int64_t option_bytes = 0;                     // an estimate of what the options take

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
inline void* data_or_null(std::vector<std::byte>& bytes) { return bytes.empty() ? nullptr : bytes.data(); }

}  // namespace dllm::lua
