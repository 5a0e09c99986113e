#pragma once
// This header sets up the global variables of a script: the standard libraries, with limited
// versions of some functions, and the embedded modules. It also declares the limits of a script.

#include "dllm/dllm.h"
#include "lua/state.h"

#include <lua.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace dllm::lua {

// Opens the standard libraries, and replaces the functions in which a script could run without end.
// Without `full` it opens only listed globals: os has only clock, date and time, io and debug are
// absent, and files and bytecode cannot be loaded. `require` then finds only embedded and preloaded
// modules.
void open_libraries(lua_State* L, bool full);
// Sets the searchers of `require` in this order: preloaded modules, folders of `path` (with `full`
// only), embedded modules.
void open_searchers(lua_State* L, bool full, const std::string& path);

// A file that is compiled into the library: the manifest, or a Lua module of scripts/lib.
struct EmbeddedFile {
  const char* name; // "manifest.json", "dllm.lua", "dllm/random.lua"
  const char* data;
  size_t size;
};

extern const EmbeddedFile kEmbeddedFiles[];
extern const size_t kEmbeddedFileCount;

// Returns the content, or an empty text when the file does not exist.
std::string_view embedded_file(std::string_view name);

// Replaces the functions that catch errors or start a coroutine: pcall, xpcall, load, setmetatable,
// and resume, wrap and close of coroutine. They do the same as Lua's functions, and a stopped call
// ends in spite of them.
void open_control(lua_State* L);

// Calls lua_load with the text in pieces, so that a long text can be stopped. Pushes the function;
// raises errors.
void load_text(lua_State* L, const char* text, size_t size, const char* name);

// Runs the function on the stack of `co` with its arguments. Meanwhile `co` is the running
// coroutine.
int resume(lua_State* L, lua_State* co, int arguments, int* results);
// Calls lua_resetthread for a coroutine that ended with an error, with hooks set.
void reset(lua_State* L, lua_State* co);

// Replaces concat, insert, remove, move, unpack and sort of `table`. The new functions return the
// same results as Lua's functions and charge every element to the budget.
void open_table_functions(lua_State* L);

// Replaces find, match, gmatch, gsub and rep of `string`. The new functions return the same results
// as Lua's functions and charge steps. Other functions of `string`, `utf8` and `os` whose cost
// depends on their arguments charge steps by the size of the arguments.
void open_text_functions(lua_State* L);

// ---- steps ----
// Every instruction is a step, and library functions written in C charge steps for their work. The
// task and the step limit are checked at least every kStepsPerLook steps. A call that must stop
// stays stopped, because functions that catch errors (pcall, coroutines, load, finalizers) raise
// the error again.

inline constexpr int kStepsPerLook = 1000;
// With a string or table of this size one instruction may cost milliseconds, so checks are more
// frequent.
inline constexpr size_t kBigBlock = size_t{1} << 20;
inline constexpr int kStepsPerLookBig = 25;
inline constexpr size_t kHugeBlock = size_t{1} << 23;
inline constexpr int kStepsPerLookHuge = 5;
// Steps for resuming a coroutine or running a finalizer, each of which counts its own instructions.
inline constexpr int kResumeSteps = 50;

// Checks the task and the step limit; raises when the call must stop.
void look(lua_State* L);

// Bytes that a C function may copy or search for one step.
inline constexpr int64_t kBytesPerStep = 64;
inline void charge(lua_State* L, int64_t steps) {
  Shared& own = shared(L);
  if ((own.credit -= steps) < 0) look(L);
}

// Raises when the call must stop. Functions that catch errors call it, because they may have caught
// the error that stops the call.
void pass_stop_on(lua_State* L);
// Makes the thread check the limits at its next instruction.
void look_soon(lua_State* L);

// Sets the hook of a state's main thread; coroutines inherit it.
void open_budget(lua_State* L);
// Begins a call with a full budget.
void start_budget(lua_State* L, dllm_task* task);
// Returns the error message of a stopped call.
std::string stop_message(const Shared& own);

// ---- memory ----

// Most bytes of a text, and of any other block, below level full. An instruction that copies or
// compares such a text or block ends in milliseconds.
inline constexpr size_t kMostText = size_t{32} << 20;
inline constexpr size_t kMostBlock = size_t{128} << 20;

// The lua_Alloc of a state. It counts bytes against the limit that the script and its library
// objects share. data is the Shared of the state.
void* allocate(void* data, void* block, size_t old_size, size_t new_size);

// ---- finalizers ----
// Lua runs the finalizers (__gc) of tables without hooks, so that an endless finalizer could not be
// stopped. Here a finalizer runs in its own coroutine, with hooks and the script's budget. It runs
// only during a call of a script, not while a host sets a global and not when the runner is
// released.

// setmetatable(table, metatable or nil), with the same results as Lua's function.
int set_metatable(lua_State* L);

// ---- paths and native code ----
// All checks of paths and native code are here. Level safe allows no path, level files paths below
// the host's roots, and level full everything.

// Raises permission_denied, naming the level, when a script may not call this function.
void check_function(lua_State* L, const Function& function);
// Returns the path to pass to the library, which is resolved at level files. Raises
// permission_denied, naming the level.
std::string check_path(lua_State* L, const std::string& where, const char* path);
// Does the same for the data of dllm_dataset_open, and for each of its parts.
std::string check_data(lua_State* L, const std::string& where, const char* data);
// Raises, below level full, the error for an empty path. The caller has found the path to be empty.
void check_path_given(lua_State* L, const std::string& where);
// Raises when a script may not set this key of an engine to this value, below level full.
void check_engine_value(lua_State* L, bool is_hosts, std::string_view key, int64_t value);
// Raises when options name a path, a plugin or an engine that the level does not allow.
void check_options(lua_State* L, const std::string& kind, const dllm_options* options);
// Returns the real paths of the host's roots. Throws ScriptError for a root that is not a folder.
std::vector<std::string> open_roots(const std::vector<std::string>& roots);

} // namespace dllm::lua
