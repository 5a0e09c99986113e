#include "lua/budget.h"

namespace dllm::lua {
namespace {

int steps_per_look(const Shared& own) {
  if (own.huge_blocks > 0 && own.level != Level::full) return kStepsPerLookHuge;
  return own.big_blocks > 0 ? kStepsPerLookBig : kStepsPerLook;
}

void count_hook(lua_State* L, lua_Debug*) {
  Shared& own = shared(L);
  own.credit -= lua_gethookcount(L);
  if (const int wanted = steps_per_look(own); lua_gethookcount(L) != wanted) {
    lua_sethook(L, count_hook, LUA_MASKCOUNT, wanted);
  }
  look(L);
}

}  // namespace

std::string stop_message(const Shared& own) {
  if (own.stop == DLLM_RESOURCE_EXHAUSTED) {
    return "the script ran " + std::to_string(own.steps) + " steps, its limit is " + std::to_string(own.step_limit);
  }
  return own.stop == DLLM_DEADLINE_EXCEEDED ? "the script ran longer than its deadline" : "the script was cancelled";
}

void pass_stop_on(lua_State* L) {
  const Shared& own = shared(L);
  if (own.stop == DLLM_OK) return;
  look_soon(L);  // functions that close variables on the way out end at their first instruction
  const std::string message = stop_message(own);
  raise(L, dllm_status_name(own.stop), message.c_str(), own.stop == DLLM_RESOURCE_EXHAUSTED ? "raise option step_limit" : "");
}

void look(lua_State* L) {
  Shared& own = shared(L);
  own.steps += kStepsPerLook - own.credit;
  own.credit = kStepsPerLook;
  if (own.stop == DLLM_OK && own.task != nullptr) own.stop = own.task_status(own.task);
  if (own.stop == DLLM_OK && own.step_limit > 0 && own.steps > own.step_limit) own.stop = DLLM_RESOURCE_EXHAUSTED;
  pass_stop_on(L);
}

void look_soon(lua_State* L) { lua_sethook(L, count_hook, LUA_MASKCOUNT, 1); }

void open_budget(lua_State* L) {
  shared(L).credit = kStepsPerLook;
  lua_sethook(L, count_hook, LUA_MASKCOUNT, kStepsPerLook);
}

void start_budget(lua_State* L, dllm_task* task) {
  Shared& own = shared(L);
  own.task = task;
  own.stop = DLLM_OK;
  own.steps = 0;
  own.credit = kStepsPerLook;
  own.running = L;
  lua_sethook(L, count_hook, LUA_MASKCOUNT, steps_per_look(own));
}

}  // namespace dllm::lua
