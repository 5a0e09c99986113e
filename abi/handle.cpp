#include "handle.h"

#include "base/error.h"

#include <pthread.h>

#include <mutex>
#include <unordered_map>

namespace dllm::abi {

const char* kind_name(Kind kind) noexcept {
  constexpr const char* kNames[] = {
      "error",   "buffer",     "options", "event",  "task",      "engine",   "tensor",    "source",
      "model",   "tokenizer",  "dataset", "loader", "batch",     "schedule", "objective", "trainer",
      "decoder", "checkpoint", "lua",     "answer", "generator", "queue"};
  return kNames[static_cast<uint32_t>(kind) - static_cast<uint32_t>(Kind::error)];
}

bool enter_by_stamp(const HandleHead* handle, Kind kind) noexcept {
  if (handle->stamp.load(std::memory_order_acquire) != static_cast<uint32_t>(kind)) return false;
  uint32_t now = handle->uses.load(std::memory_order_relaxed);
  do {
    if ((now & HandleHead::kReleased) != 0) return false;
  } while (!handle->uses.compare_exchange_weak(now, now + 1, std::memory_order_acquire,
                                               std::memory_order_relaxed));
  return true;
}

bool leave(const HandleHead* handle) noexcept {
  return handle->uses.fetch_sub(1, std::memory_order_acq_rel) == (HandleHead::kReleased | 1);
}

namespace {

bool retire_by_stamp(const HandleHead* handle, Kind kind) noexcept {
  if (handle->stamp.load(std::memory_order_acquire) != static_cast<uint32_t>(kind)) return false;
  return handle->uses.fetch_or(HandleHead::kReleased, std::memory_order_acq_rel) == 0;
}

} // namespace

#ifdef NDEBUG

HandleHead::HandleHead(Kind kind) : stamp(static_cast<uint32_t>(kind)) {}
HandleHead::~HandleHead() {
  stamp.store(0, std::memory_order_release);
}

bool enter(const HandleHead* handle, Kind kind) noexcept {
  return enter_by_stamp(handle, kind);
}
bool retire(const HandleHead* handle, Kind kind) noexcept {
  return retire_by_stamp(handle, kind);
}

#else

namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<const void*, Kind> living;

  bool holds(const HandleHead* handle, Kind kind) const {
    const auto found = living.find(handle);
    return found != living.end() && found->second == kind;
  }
};

Table& table();

// A child of fork() has only the thread that forked. The fork therefore holds the mutex, because a
// mutex that another thread holds would stay locked in the child.
Table* new_table() {
  auto* made = new Table;
  const auto unlock = [] { table().mutex.unlock(); };
  ::pthread_atfork([] { table().mutex.lock(); }, unlock, unlock);
  return made;
}

Table& table() {
  // The table is never destroyed, because hosts release handles while the process ends.
  static auto* instance = new_table();
  return *instance;
}

} // namespace

HandleHead::HandleHead(Kind kind) : stamp(static_cast<uint32_t>(kind)) {
  const std::lock_guard lock(table().mutex);
  table().living[this] = kind;
}

HandleHead::~HandleHead() {
  const std::lock_guard lock(table().mutex);
  table().living.erase(this);
  stamp.store(0, std::memory_order_release);
}

bool enter(const HandleHead* handle, Kind kind) noexcept {
  const std::lock_guard lock(table().mutex);
  return table().holds(handle, kind) && enter_by_stamp(handle, kind);
}

bool retire(const HandleHead* handle, Kind kind) noexcept {
  const std::lock_guard lock(table().mutex);
  if (!table().holds(handle, kind)) return false;
  table().living.erase(handle);
  return retire_by_stamp(handle, kind);
}

#endif

namespace {

thread_local CallScope* innermost_scope = nullptr;
std::atomic<int32_t> running_calls{0}; // outermost scopes of all threads
std::atomic<bool> forked_inside_calls{false};

void in_child() {
  // The own scope is the call whose callback forks.
  const int32_t own = innermost_scope != nullptr ? 1 : 0;
  if (running_calls.load(std::memory_order_relaxed) > own)
    forked_inside_calls.store(true, std::memory_order_relaxed);
  running_calls.store(own, std::memory_order_relaxed);
}

[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, in_child);

} // namespace

bool is_forked_inside_calls() noexcept {
  return forked_inside_calls.load(std::memory_order_relaxed);
}

CallScope::CallScope() noexcept : outer_(innermost_scope) {
  if (outer_ == nullptr) running_calls.fetch_add(1, std::memory_order_relaxed);
  innermost_scope = this;
}

CallScope::~CallScope() {
  innermost_scope = outer_;
  if (outer_ == nullptr) running_calls.fetch_sub(1, std::memory_order_relaxed);
  while (count_ > 0) {
    const Use& last = uses_[--count_];
    if (last.is_owned) last.handle->owner.store({}, std::memory_order_release);
    if (leave(last.handle)) last.destroy(last.handle);
  }
}

CallScope& CallScope::innermost() {
  if (innermost_scope == nullptr) fail(Code::internal, "a handle is looked at outside a call");
  return *innermost_scope;
}

bool CallScope::use(const HandleHead* handle, Kind kind, Destroy destroy) {
  if (is_forked_inside_calls()) {
    fail_with_hint(
        "fork while no call is under way, or call exec in the child", Code::failed_precondition,
        "this process was forked while another thread was inside of a call of the library");
  }
  if (count_ == kMost) fail(Code::internal, "a call uses more than {} handles", kMost);
  if (!enter(handle, kind)) return false;
  uses_[count_++] = {handle, destroy, false};
  return true;
}

bool CallScope::own(const HandleHead* handle) {
  const std::thread::id mine = std::this_thread::get_id();
  std::thread::id now{};
  if (!handle->owner.compare_exchange_strong(now, mine, std::memory_order_acquire))
    return now == mine;
  Use* const last = uses_ + count_ - 1;
  last->is_owned = true;
  return true;
}

} // namespace dllm::abi
