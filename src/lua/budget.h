#pragma once
// How a script is stopped. Every instruction is a step, and library functions written in C charge steps for
// the work they do; after every few steps the task and the step limit are looked at. Once a call must stop it
// stays stopped: what catches errors (pcall, coroutines, load, finalizers) passes the end on.

#include "lua/state.h"

#include <lua.h>

namespace dllm::lua {

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

}  // namespace dllm::lua
