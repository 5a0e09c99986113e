#pragma once
// The state of a script: its failures, what belongs to the Lua state (task, budget, heap, level), and library objects
// and JSON as Lua values.

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

// The functions of the C ABI as data, from abi/manifest.json, which is embedded in the library.

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
  std::string noun; // handles: "model"; of options also the schema's kind in `schema`
  std::string schema;
  Element element = Element::i32;
  int length = -1; // index of the parameter that counts it
  bool nullable = false;
  bool derived = false;  // not an argument of the Lua function
  bool is_const = false; // handles: the call only reads it
};

struct Function {
  std::string name;
  ResultKind result;
  std::string result_noun;
  Element result_element = Element::i32;
  std::string takes; // the parameter that the call releases
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

// Parsed once. Functions that scripts cannot use are left out: those of dllm/lua.h, and those that return pointers to bytes.
const Manifest& manifest();

int64_t element_size(Element element);

enum class Level { safe, files, full };

// Memory of the library's own objects that this state's scripts made (runner.h).
struct LibraryBytes {
  virtual ~LibraryBytes() = default;
  virtual int64_t used() const = 0;
  // Bytes that the library does not count itself, or, when negative, that were freed.
  virtual void add(int64_t bytes) = 0;
  // Counts the heap towards the same limit.
  virtual void watch(const int64_t* heap) = 0;
};

struct Shared {
  // ---- the call under way ----
  dllm_task* task = nullptr; // may be null
  dllm_status (*task_status)(const dllm_task*) =
      nullptr;                  // DLLM_OK, DLLM_CANCELLED or DLLM_DEADLINE_EXCEEDED
  dllm_status stop = DLLM_OK;   // why the call must end; once set it stays set until the next call
  lua_State* running = nullptr; // the coroutine that runs
  bool in_call = false;         // a script's call is under way: its finalizers may run
  bool closing = false;

  // ---- steps: instructions, and what library functions charge (sandbox.h) ----
  int64_t credit = 0;                // until the next look at task and limit
  int64_t steps = 0, step_limit = 0; // 0: none

  // ---- memory ----
  int64_t heap = 0, limit = 0;     // bytes; limit 0: none
  int64_t collect_at = 0;          // library bytes that make the next call collect garbage first
  int64_t big_blocks = 0;          // blocks of kBigBlock or more
  int64_t huge_blocks = 0;         // blocks of kHugeBlock or more
  LibraryBytes* library = nullptr; // may be null

  // ---- what scripts may reach ----
  Level level = Level::safe;
  std::vector<std::string> roots; // real paths of folders, for Level::files

  dllm_error* error = nullptr; // reused by every raw call
};

Shared& shared(lua_State* L);
// Bytes that a call may still take: until the limit, and below level full no more than one block of a table may have.
int64_t room_left(const Shared& own);
const char* level_name(Level level);

// Raises {code, message, hint}: a table that prints itself.
[[noreturn]] void raise(lua_State* L, const char* code, const char* message, const char* hint);
[[noreturn]] void raise(lua_State* L, const char* code, const std::string& message,
                        const std::string& hint = {});
// Pushes the same table.
void push_error(lua_State* L, const char* code, const char* message, const char* hint);
// Turns any error value into the table form, with a traceback. Runs where the error was raised.
int with_traceback(lua_State* L);
inline constexpr std::string_view kNoMemory = "not enough memory"; // Lua's message

// How failures leave a script: the core's exception type is not visible here, so this folder has its own.

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

// Handles as Lua values: full userdata with their noun, released by __gc, __close or :close().

// uses: calls under way that hold the handle, below on the stack when a callback runs. It cannot be closed meanwhile.
// busy: one of them is a run with a callback, so that only functions that read it may be called.
struct Box {
  void* handle;
  void (*release)(); // dllm_<noun>_release, each has its own type
  int uses;
  int busy;
  int64_t bytes; // what it was charged for in addition to its arrays
  bool is_hosts; // handed over, not made by the script
};

// Makes the metatable "dllm.<noun>" of every noun; its __index is the (empty) table the friendly layer fills.
void open_boxes(lua_State* L);
// Pushes a box that owns the handle; null: an empty one, for fill_box, which cannot fail.
void push_box(lua_State* L, const std::string& noun, void* handle);
void fill_box(lua_State* L, Box& box, void* handle);
// The box at `index`, open; raises when it is closed or of another noun. nil gives null when nullable.
Box* check_box(lua_State* L, int index, const std::string& noun, bool nullable, const char* what);
bool is_box(lua_State* L, int index, const std::string& noun);

// Lua values as JSON and back. Tables with keys 1..n are arrays, an empty table is an empty object. Both ways refuse
// what is nested deeper or has more values than the limits, and charge the script's budget by value.

inline constexpr int kMostJsonDepth = 64; // as base/json.h: what passes here passes there
inline constexpr int64_t kMostJsonValues = int64_t{1} << 22;
inline constexpr size_t kMostJsonBytes = size_t{256} << 20; // of a text that is written

// Pushes one value; raises when the text is no JSON or over a limit.
void push_json(lua_State* L, std::string_view json);
// The value at `index`; raises for functions, handles, and what is over a limit, tables in themselves among it.
std::string to_json(lua_State* L, int index);
// Installs json.encode and json.decode into the table on top of the stack.
void open_json(lua_State* L);

} // namespace dllm::lua
