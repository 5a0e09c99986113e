#pragma once
// The globals of a script: the standard libraries, those of their functions that have own versions, the embedded modules.

#include "dllm/dllm.h"
#include "lua/state.h"

#include <lua.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace dllm::lua {

// Opens the standard libraries, with the own versions of what a stranger's script could hang on. full false: an
// allow-list of globals, os with clock, date and time alone, no io, no debug,
// no way to load files or bytecode; then `require` finds only embedded and preloaded modules.
void open_libraries(lua_State* L, bool full);
// Puts `require`'s searchers in order: preload, folders of `path` (full level), the library's own modules.
void open_searchers(lua_State* L, bool full, const std::string& path);

// Files that were compiled into the library: the manifest and the Lua modules of scripts/lib.

struct EmbeddedFile {
  const char* name; // "manifest.json", "dllm.lua", "dllm/random.lua"
  const char* data;
  size_t size;
};

extern const EmbeddedFile kEmbeddedFiles[];
extern const size_t kEmbeddedFileCount;

// Empty when there is no such file.
std::string_view embedded_file(std::string_view name);

// Own versions of the functions of Lua that catch errors or start a coroutine. They do what Lua's do, and pass the
// end of a stopped call on.

// Replaces the global functions pcall, xpcall, load, setmetatable and the coroutine functions resume, wrap, close.
void open_control(lua_State* L);

// lua_load of a text in pieces, so that a long one can be stopped. Pushes the function; raises what is wrong.
void load_text(lua_State* L, const char* text, size_t size, const char* name);

// Runs what lies on `co` (a function and its arguments); the coroutine is the running one meanwhile.
int resume(lua_State* L, lua_State* co, int arguments, int* results);
// lua_resetthread of a coroutine that died, with hooks.
void reset(lua_State* L, lua_State* co);

// Own versions of the functions of `table` that walk as far as a script says: same results as Lua's, every element is
// charged to the budget.

// Replaces concat, insert, remove, move, unpack and sort.
void open_table_functions(lua_State* L);

// Own versions of the functions of `string`, `utf8` and `os` whose cost a script chooses: same results as Lua's, in
// steps that are charged.

// Replaces find, match, gmatch, gsub, rep; the functions that walk their arguments are charged by size.
void open_text_functions(lua_State* L);

// The limits of a script: steps and cancelling, memory, finalizers, paths and native code.

// ---- steps ----
// Every instruction is a step, and library functions written in C charge steps for the work they do; after every few
// steps the task and the step limit are checked. Once a call must stop it stays stopped: what catches errors (pcall,
// coroutines, load, finalizers) passes the end on.

inline constexpr int kStepsPerLook = 1000;
// With a string or table of this size one instruction may cost milliseconds, so looks come more often.
inline constexpr size_t kBigBlock = size_t{1} << 20;
inline constexpr int kStepsPerLookBig = 25;
inline constexpr size_t kHugeBlock = size_t{1} << 23;
inline constexpr int kStepsPerLookHuge = 5;
// What resuming a coroutine or running a finalizer costs: each has its own count of instructions.
inline constexpr int kResumeSteps = 50;

// Looks at the task and the limit now; raises when the call must stop.
void look(lua_State* L);

// Bytes that a C function may copy or search for the price of one instruction.
inline constexpr int64_t kBytesPerStep = 64;
inline void charge(lua_State* L, int64_t steps) {
  Shared& own = shared(L);
  if ((own.credit -= steps) < 0) look(L);
}

// Raises when the call must stop. For what may have caught the error that said so.
void pass_stop_on(lua_State* L);
// Makes the thread look at its next instruction.
void look_soon(lua_State* L);

// Sets the hook of a state's main thread; coroutines inherit it.
void open_budget(lua_State* L);
// Begins a call with a full budget.
void start_budget(lua_State* L, dllm_task* task);
// The sentence for a call that stopped.
std::string stop_message(const Shared& own);

// ---- memory ----
// The allocator of a Lua state: counts bytes against the limit that script and library objects share.

// Below level full a text, and any other block, is no larger than this: one instruction that copies or
// compares it then ends in milliseconds.
inline constexpr size_t kMostText = size_t{32} << 20;
inline constexpr size_t kMostBlock = size_t{128} << 20;

// A lua_Alloc; data is the Shared of the state.
void* allocate(void* data, void* block, size_t old_size, size_t new_size);

// ---- finalizers ----
// Finalizers (__gc) of a script's tables. Lua runs them without hooks, so an endless one could not be stopped; here
// they run in a coroutine of their own, with hooks and the script's budget, and during a script's call alone: not while a
// host sets a global, nor when the runner is released.

// setmetatable(table, metatable or nil), as Lua's.
int set_metatable(lua_State* L);

// ---- paths and native code ----
// What a level lets a script reach through the library: the one place where paths and native code are checked.
// safe: no path. files: paths below the host's roots. full: everything.

// Raises permission_denied, naming the level, when a script may not call this function.
void check_function(lua_State* L, const Function& function);
// The path to hand to the library, resolved at level files; raises permission_denied, naming the level.
std::string check_path(lua_State* L, const std::string& where, const char* path);
// Below level full: raises for a path that is empty, and for what a script may not do with an engine.
void check_path_given(lua_State* L, const std::string& where);
void check_engine_value(lua_State* L, bool is_hosts, std::string_view key, int64_t value);
// Raises when options name a path, a plugin or an engine that the level does not allow.
void check_options(lua_State* L, const std::string& kind, const dllm_options* options);
// Real paths of the host's roots; throws ScriptError for one that is no folder.
std::vector<std::string> open_roots(const std::vector<std::string>& roots);

} // namespace dllm::lua
