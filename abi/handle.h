#pragma once
// The memory of a handle: a head with its kind and the number of running calls, then the object.
// abi/api/handles.h defines every struct of include/dllm/base.h as a Handle.

#include "base/threads/float_mode.h"

#include <atomic>
#include <cstdint>
#include <thread>

namespace dllm::abi {

enum class Kind : uint32_t {
  error = 0xD1100001,
  buffer,
  options,
  event,
  task,
  engine,
  tensor,
  source,
  model,
  tokenizer,
  dataset,
  loader,
  batch,
  schedule,
  objective,
  trainer,
  decoder,
  checkpoint,
  lua,
  answer,
  generator,
  queue,
};
const char* kind_name(Kind kind) noexcept;

struct HandleHead {
  explicit HandleHead(Kind kind);
  ~HandleHead();
  HandleHead(const HandleHead&) = delete;
  HandleHead& operator=(const HandleHead&) = delete;

  static constexpr uint32_t kReleased = uint32_t{1} << 31;
  std::atomic<uint32_t> stamp;           // the kind; 0 after destruction
  mutable std::atomic<uint32_t> uses{0}; // calls that use the handle, and kReleased
  // The thread whose call may change the object.
  mutable std::atomic<std::thread::id> owner{};
};

template <Kind K> struct Handle : HandleHead {
  static constexpr Kind kKind = K;
  Handle() : HandleHead(K) {}
};

// A release while a call uses the handle is deferred. New calls are refused at once, and the last
// running call destroys the object. Debug builds also keep all live handles in a table, so they can
// reject a stale pointer without reading through it. A release build reads the stamp.

// Begins a use. Returns false when `handle` is not a live handle of this kind. REQUIRES: not null.
bool enter(const HandleHead* handle, Kind kind) noexcept;
// Begins a use as enter() does, but reads the stamp alone, without a lock. For signal handlers.
bool enter_by_stamp(const HandleHead* handle, Kind kind) noexcept;
// Ends a use. Returns true for the last use of a released handle, which the caller must destroy.
bool leave(const HandleHead* handle) noexcept;
// Releases a handle, so that no new use begins. Returns true when no call uses the handle; the
// caller must then destroy it. Returns false also when `handle` is not a live handle of this kind.
bool retire(const HandleHead* handle, Kind kind) noexcept;

// Returns true when this process was forked while another thread was inside of a call. Locks and
// objects of that call stay as they were, so no handle of the parent can be used.
bool is_forked_inside_calls() noexcept;

// The uses of one call of the C ABI. need() begins them, and the end of the scope ends them. Scopes
// of one thread nest, because a callback may call the library again.
class CallScope {
public:
  using Destroy = void (*)(const HandleHead*);
  CallScope() noexcept;
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  // Returns the innermost scope of this thread. Fails with internal when there is none.
  static CallScope& innermost();
  // Begins a use until the scope ends. Returns false as enter() does.
  bool use(const HandleHead* handle, Kind kind, Destroy destroy);
  // Reserves the handle for this thread until the call ends; calls of the same thread nest. Returns
  // false when a call on another thread has it. REQUIRES: this call uses the handle.
  bool own(const HandleHead* handle);

private:
  // More handles than any signature has.
  static constexpr int kMost = 12;
  struct Use {
    const HandleHead* handle;
    Destroy destroy;
    bool is_owned = false; // reserved by this call
  };
  CallScope* outer_;
  const FloatMode numbers_; // float mode of the call; the caller's may differ
  int count_ = 0;
  Use uses_[kMost];
};

// One use, for functions without a status. It converts to true for a live handle.
template <class H> class Held {
public:
  explicit Held(H* handle) noexcept
      : handle_(handle != nullptr && (H::kKind == Kind::error || !is_forked_inside_calls()) &&
                        enter(handle, H::kKind)
                    ? handle
                    : nullptr) {}
  ~Held() {
    if (handle_ != nullptr && leave(handle_)) delete handle_;
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  H* operator->() const noexcept { return handle_; }

private:
  H* handle_;
};

// Releases a handle, as every dllm_*_release does.
template <class H> void release(H* handle) noexcept {
  if (is_forked_inside_calls()) return; // a destructor could wait for a thread that the child lacks
  if (handle != nullptr && retire(handle, H::kKind)) delete handle;
}

} // namespace dllm::abi
