#pragma once
// What hangs on a Lua state: the running task, the budget of steps, the heap's limit, the level.

#include "dllm/dllm.h"

#include <cstddef>
#include <cstdint>
#include <lua.h>
#include <string>
#include <vector>

namespace dllm::lua {

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
  dllm_task* task = nullptr;           // may be null
  dllm_status (*task_status)(const dllm_task*) = nullptr;  // DLLM_OK, DLLM_CANCELLED or DLLM_DEADLINE_EXCEEDED
  dllm_status stop = DLLM_OK;          // why the call must end; once set it stays set until the next call
  lua_State* running = nullptr;        // the coroutine that runs
  bool in_call = false;                // a script's call is under way: its finalizers may run
  bool closing = false;

  // ---- steps: instructions, and what library functions charge (budget.h) ----
  int64_t credit = 0;                  // until the next look at task and limit
  int64_t steps = 0, step_limit = 0;   // 0: none

  // ---- memory ----
  int64_t heap = 0, limit = 0;         // bytes; limit 0: none
  int64_t collect_at = 0;              // library bytes that make the next call collect garbage first
  int64_t big_blocks = 0;              // blocks of kBigBlock or more
  int64_t huge_blocks = 0;             // blocks of kHugeBlock or more
  LibraryBytes* library = nullptr;     // may be null

  // ---- what scripts may reach ----
  Level level = Level::safe;
  std::vector<std::string> roots;      // real paths of folders, for Level::files

  dllm_error* error = nullptr;         // reused by every raw call
};

Shared& shared(lua_State* L);
// Bytes that a call may still take: until the limit, and below level full no more than one block of a table may have.
int64_t room_left(const Shared& own);
const char* level_name(Level level);

// Raises {code, message, hint}: a table that prints itself.
[[noreturn]] void raise(lua_State* L, const char* code, const char* message, const char* hint);
[[noreturn]] void raise(lua_State* L, const char* code, const std::string& message, const std::string& hint = {});
// Pushes the same table.
void push_error(lua_State* L, const char* code, const char* message, const char* hint);

}  // namespace dllm::lua
