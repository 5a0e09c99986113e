#include "lua/limits.h"

#include "lua/state.h"

#include <cstdlib>

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

namespace {

// old_size of a new block is the type of the object it is for.
bool is_allowed(const Shared& own, bool is_new_text, size_t size, int64_t after) {
  if (own.level != Level::full && size > (is_new_text ? kMostText : kMostBlock)) return false;
  if (own.limit == 0 || after <= own.heap) return true;
  return after <= own.limit - (own.library == nullptr ? 0 : own.library->used());
}

}  // namespace

void* allocate(void* data, void* block, size_t old_size, size_t new_size) {
  auto& own = *static_cast<Shared*>(data);
  const bool is_new_text = block == nullptr && old_size == LUA_TSTRING;
  const size_t before = block == nullptr ? 0 : old_size;
  if (new_size == 0) {
    std::free(block);
    own.heap -= static_cast<int64_t>(before);
    own.big_blocks -= before >= kBigBlock;
    own.huge_blocks -= before >= kHugeBlock;
    return nullptr;
  }
  const int64_t after = own.heap - static_cast<int64_t>(before) + static_cast<int64_t>(new_size);
  if (new_size > before && !is_allowed(own, is_new_text, new_size, after)) return nullptr;
  void* moved = std::realloc(block, new_size);
  if (moved == nullptr) return nullptr;
  own.heap = after;
  own.big_blocks += (new_size >= kBigBlock) - (before >= kBigBlock);
  own.huge_blocks += (new_size >= kHugeBlock) - (before >= kHugeBlock);
  if (new_size >= kBigBlock && own.running != nullptr) look_soon(own.running);  // as from a signal: sets fields alone
  return moved;
}

}  // namespace dllm::lua
