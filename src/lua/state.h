#pragma once
// This header declares the manifest of the C ABI, and the data of a Lua state (task, budget, heap,
// level) with its errors. It also declares library objects and JSON as Lua values.

#include "dllm/base.h"
#include "dllm/dllm.h"

#include <lua.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::lua {

// The kinds of parameters in abi/manifest.json.
enum class ParamKind {
  handle,
  out_buffer,
  out_handle,
  text,
  bytes,
  array,
  shaped,
  dst,
  length,
  i32,
  i64,
  f64,
  out_number,
  callback,
  user_data,
  error,
};
enum class ResultKind { status, nothing, i32, i64, text, handle, array };
enum class Element { i32, i64, u8, f32, f64, byte };

struct Param {
  std::string name;
  ParamKind kind;
  std::string noun;   // handles: "model"
  std::string schema; // handles of options: the kind of the schema
  Element element = Element::i32;
  int length = -1; // arrays: index of the parameter that is their length
  bool nullable = false;
  bool derived = false;  // not an argument of the Lua function
  bool is_const = false; // handles: the call only reads the object
};

struct Function {
  std::string name;
  ResultKind result;
  std::string result_noun;
  Element result_element = Element::i32;
  std::string takes; // name of the parameter that the call releases
  std::vector<Param> params;
  void (*address)() = nullptr;
};

struct Constant {
  std::string name;
  int64_t value;
};

struct Manifest {
  std::vector<Function> functions;
  std::vector<Constant> constants;
  std::vector<std::string> nouns;
};

// Returns the functions of the C ABI from abi/manifest.json, which is embedded in the library. It
// leaves out functions that scripts cannot use: functions of dllm/lua.h, and functions that return
// pointers to bytes.
const Manifest& manifest();

int64_t element_size(Element element);

enum class Level { safe, files, full };

// Counts the memory of the library objects that scripts of one runner made (runner.h).
struct LibraryBytes {
  virtual ~LibraryBytes() = default;
  virtual int64_t used() const = 0; // bytes
  // Adds bytes that the library does not count itself; a negative number subtracts freed bytes.
  virtual void add(int64_t bytes) = 0;
  // Counts the heap, in bytes, towards the same limit.
  virtual void watch(const int64_t* heap) = 0;
};

// The data of a Lua state, which all its coroutines share.
struct Shared {
  // ---- the running call ----
  dllm_task* task = nullptr; // may be null
  // Returns DLLM_OK, DLLM_CANCELLED or DLLM_DEADLINE_EXCEEDED.
  dllm_status (*task_status)(const dllm_task*) = nullptr;
  dllm_status stop = DLLM_OK;   // why the call must end; stays set until the next call
  lua_State* running = nullptr; // the coroutine that runs
  bool in_call = false;         // a script's call runs, so finalizers may run
  bool closing = false;         // the state is being closed, so finalizers do not run

  // ---- steps: instructions, and steps that library functions charge (sandbox.h) ----
  int64_t credit = 0;                // steps until the next check of task and limit
  int64_t steps = 0, step_limit = 0; // steps of the call so far; step_limit 0: no limit

  // ---- memory ----
  int64_t heap = 0, limit = 0;     // bytes; limit 0: no limit
  int64_t collect_at = 0;          // library bytes from which a call collects garbage first
  int64_t big_blocks = 0;          // blocks of kBigBlock bytes or more
  int64_t huge_blocks = 0;         // blocks of kHugeBlock bytes or more
  LibraryBytes* library = nullptr; // may be null

  // ---- access of scripts ----
  Level level = Level::safe;
  std::vector<std::string> roots; // real paths of folders, for Level::files

  dllm_error* error = nullptr; // reused by every raw call
};

Shared& shared(lua_State* L);
// Returns the bytes that a call may still allocate: up to the limit, and below level full at most
// kMostBlock.
int64_t room_left(const Shared& own);
const char* level_name(Level level);

// Raises the table {code, message, hint}; tostring() of the table returns message and hint.
[[noreturn]] void raise(lua_State* L, const char* code, const char* message, const char* hint);
[[noreturn]] void raise(lua_State* L, const char* code, const std::string& message,
                        const std::string& hint = {});
// Pushes the same table.
void push_error(lua_State* L, const char* code, const char* message, const char* hint);
// Replaces any error value by such a table with a member traceback. It is a message handler, so it
// runs where the error was raised.
int with_traceback(lua_State* L);
// Lua's message.
inline constexpr std::string_view kNoMemory = "not enough memory";

// The exception for a failed script. This folder has its own type, because it does not see the
// exceptions of the core.
class ScriptError : public std::runtime_error {
public:
  ScriptError(dllm_status status, const std::string& message, std::string hint = {})
      : std::runtime_error(message), status_(status), hint_(std::move(hint)) {}
  dllm_status status() const { return status_; }
  const std::string& hint() const { return hint_; }

private:
  dllm_status status_;
  std::string hint_;
};

// A handle as a Lua value, which is a full userdata. __gc, __close or :close() releases the handle.
struct Box {
  void* handle;
  void (*release)(); // dllm_<noun>_release; call it with the type of its noun
  int uses;          // running calls that use the handle; above 0 the box cannot be closed
  int busy;          // running calls with a callback; above 0 only reading functions may be called
  int64_t bytes;     // bytes charged for the object, without its arrays
  bool is_hosts;     // the host made the object, not the script
};

// Makes the metatable "dllm.<noun>" of every noun. Its __index is an empty table, which the Lua
// module "dllm" fills.
void open_boxes(lua_State* L);
// Pushes a box that owns the handle, or an empty box for null.
void push_box(lua_State* L, const std::string& noun, void* handle);
// Stores the handle in an empty box; never fails.
void fill_box(lua_State* L, Box& box, void* handle);
// Returns the open box at `index`. Raises when the box is closed or of another noun. Returns null
// for nil when nullable.
Box* check_box(lua_State* L, int index, const std::string& noun, bool nullable, const char* what);
bool is_box(lua_State* L, int index, const std::string& noun);

// ---- JSON ----
// Tables with keys 1..n are arrays; an empty table is an empty object. Both directions raise above
// the limits and charge every value to the script's budget.

inline constexpr int kMostJsonDepth = 64; // as in base/json.h
inline constexpr int64_t kMostJsonValues = int64_t{1} << 22;
inline constexpr size_t kMostJsonBytes = size_t{256} << 20; // bytes of a text that is written

// Pushes one value; raises when the text is not JSON or above a limit.
void push_json(lua_State* L, std::string_view json);
// Returns the value at `index` as JSON. Raises for functions, handles, and values above a limit,
// which includes tables that contain themselves.
std::string to_json(lua_State* L, int index);
// Installs json.encode and json.decode into the table on top of the stack.
void open_json(lua_State* L);

} // namespace dllm::lua
