#include "lua/heap.h"

#include "lua/budget.h"
#include "lua/state.h"

#include <cstdlib>

namespace dllm::lua {
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
