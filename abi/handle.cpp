#include "handle.h"

#include <mutex>
#include <unordered_map>

namespace dllm::abi {

const char* kind_name(Kind kind) noexcept {
  constexpr const char* kNames[] = {"error",   "buffer",  "options",   "event",    "task",
                                    "engine",  "tensor",  "source",    "model",    "tokenizer",
                                    "dataset", "loader",  "batch",     "schedule", "objective",
                                    "trainer", "decoder", "checkpoint", "lua"};
  return kNames[static_cast<uint32_t>(kind) - static_cast<uint32_t>(Kind::error)];
}

#ifdef NDEBUG

void remember(const void*, Kind) {}
void forget(const void*) noexcept {}
bool is_alive(const void* handle, Kind kind) noexcept {
  return *static_cast<const volatile uint32_t*>(handle) == static_cast<uint32_t>(kind);
}

#else

namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<const void*, Kind> living;
};

Table& table() {
  static auto* instance = new Table;  // never destroyed: hosts release handles while the process ends
  return *instance;
}

}  // namespace

void remember(const void* handle, Kind kind) {
  const std::lock_guard lock(table().mutex);
  table().living[handle] = kind;
}

void forget(const void* handle) noexcept {
  const std::lock_guard lock(table().mutex);
  table().living.erase(handle);
}

bool is_alive(const void* handle, Kind kind) noexcept {
  const std::lock_guard lock(table().mutex);
  const auto found = table().living.find(handle);
  return found != table().living.end() && found->second == kind;
}

#endif

}  // namespace dllm::abi
