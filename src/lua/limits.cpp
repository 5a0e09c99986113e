#include "lua/sandbox.h"

#include "lua/raw_call.h"
#include "lua/state.h"

#include <algorithm>
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

} // namespace

std::string stop_message(const Shared& own) {
  if (own.stop == DLLM_RESOURCE_EXHAUSTED) {
    return "the script ran " + std::to_string(own.steps) + " steps, its limit is " +
           std::to_string(own.step_limit);
  }
  return own.stop == DLLM_DEADLINE_EXCEEDED ? "the script ran longer than its deadline"
                                            : "the script was cancelled";
}

void pass_stop_on(lua_State* L) {
  const Shared& own = shared(L);
  if (own.stop == DLLM_OK) return;
  look_soon(L); // functions that close variables on the way out end at their first instruction
  const std::string message = stop_message(own);
  raise(L, dllm_status_name(own.stop), message.c_str(),
        own.stop == DLLM_RESOURCE_EXHAUSTED ? "raise option step_limit" : "");
}

void look(lua_State* L) {
  Shared& own = shared(L);
  own.steps += kStepsPerLook - own.credit;
  own.credit = kStepsPerLook;
  if (own.stop == DLLM_OK && own.task != nullptr) own.stop = own.task_status(own.task);
  if (own.stop == DLLM_OK && own.step_limit > 0 && own.steps > own.step_limit)
    own.stop = DLLM_RESOURCE_EXHAUSTED;
  pass_stop_on(L);
}

void look_soon(lua_State* L) {
  lua_sethook(L, count_hook, LUA_MASKCOUNT, 1);
}

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

// Checks the limits of a block. For a new block lua_Alloc's old_size is the type of its object.
bool is_allowed(const Shared& own, bool is_new_text, size_t size, int64_t after) {
  if (own.level != Level::full && size > (is_new_text ? kMostText : kMostBlock)) return false;
  if (own.limit == 0 || after <= own.heap) return true;
  return after <= own.limit - (own.library == nullptr ? 0 : own.library->used());
}

} // namespace

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
  if (new_size >= kBigBlock && own.running != nullptr)
    look_soon(own.running); // as from a signal: sets fields alone
  return moved;
}

// ---- library objects of a script ----

namespace {

// Returns the bytes of a new object without its arrays. They are estimated from the arguments of
// the call, and for a tokenizer also from its tokens.
int64_t bytes_of_made(const Call& call, const Param& p, void* handle) {
  constexpr int64_t kBytesPerByte = 4, kBytesPerToken = 256, kCopies = 2;
  if (p.noun == "batch" || p.noun == "tensor") return 0; // has only arrays
  int64_t bytes = call.text_bytes * kBytesPerByte + call.option_bytes;
  for (size_t i = 0; i < call.storage.size(); ++i) {
    if (call.function.params[i].kind == ParamKind::array)
      bytes += static_cast<int64_t>(call.storage[i].size()) * kCopies;
  }
  if (p.noun == "tokenizer")
    bytes += dllm_tokenizer_size(static_cast<dllm_tokenizer*>(handle)) * kBytesPerToken;
  return bytes;
}

void charge_box(Shared& own, Box& box, int64_t bytes) {
  box.bytes += bytes;
  own.library->add(bytes);
}

// Sets the charge of an engine, which grows and shrinks.
void charge_engine(Shared& own, Box& box) {
  constexpr int64_t kBytes = 1024, kBytesPerThread = int64_t{1} << 20;
  int64_t threads = 0;
  dllm_engine_i64(static_cast<dllm_engine*>(box.handle), "threads", &threads, nullptr);
  charge_box(own, box, kBytes + threads * kBytesPerThread - box.bytes);
}

void charge_batch(Shared& own, Box& box) {
  constexpr int64_t kBytesPerArray = 1024; // its name, of at most 256 bytes, and shape
  charge_box(own, box,
             (1 + dllm_batch_count(static_cast<dllm_batch*>(box.handle))) * kBytesPerArray -
                 box.bytes);
}

} // namespace

void collect_before(lua_State* L, const Function& function) {
  Shared& own = shared(L);
  if (own.library == nullptr || own.library->used() <= own.collect_at) return;
  const bool makes = std::any_of(function.params.begin(), function.params.end(),
                                 [](const Param& p) { return p.kind == ParamKind::out_handle; });
  if (!makes && function.result != ResultKind::handle) return;
  lua_gc(L, LUA_GCCOLLECT, 0);
  pass_stop_on(L);
  constexpr int64_t kLeast = int64_t{1} << 20;
  const int64_t used = own.library->used();
  own.collect_at = used + (own.limit == 0 ? used + (kLeast << 6)
                                          : std::max((own.limit - own.heap - used) / 2, kLeast));
}

void charge_library(lua_State* L, const Call& call) {
  // "1," of a list may become a text of 32 bytes, and a number.
  constexpr int64_t kBytesPerByte = 4, kBytesPerOption = 24;
  const Function& f = call.function;
  Shared& own = shared(L);
  if (own.library == nullptr) return;
  auto* first = static_cast<Box*>(lua_touserdata(L, 1)); // of the object that grows
  if (f.name == "dllm_batch_set") return charge_batch(own, *first);
  if (f.name == "dllm_engine_set_i64") return charge_engine(own, *first);
  if (f.name == "dllm_dataset_add" || f.name == "dllm_source_add")
    charge_box(own, *first, call.text_bytes * kBytesPerByte);
  if (f.name.starts_with("dllm_options_set_"))
    charge_box(own, *first, call.text_bytes * kBytesPerOption);
  size_t made = 0;
  for (const Param& p : f.params) {
    if (p.kind != ParamKind::out_handle) continue;
    auto* box = static_cast<Box*>(lua_touserdata(L, call.made[made++]));
    if (box->handle == nullptr) continue;
    if (p.noun == "engine")
      charge_engine(own, *box);
    else
      charge_box(own, *box, bytes_of_made(call, p, box->handle));
  }
}

void check_memory(lua_State* L, const Call& call) {
  const Shared& own = shared(L);
  if (own.limit == 0 || own.library == nullptr) return;
  const int64_t used = own.heap + own.library->used();
  if (used <= own.limit) return;
  raise(L, "resource_exhausted",
        call.function.name + ": the script and its objects hold " + std::to_string(used) +
            " bytes, the limit is " + std::to_string(own.limit),
        "close objects that are not needed, or raise option memory_limit");
}

} // namespace dllm::lua
