#pragma once
// The memory of a handle: a head with its kind and the number of running calls, then the object. Every
// struct of include/dllm/base.h is defined in abi/api/handles.h as a Handle.

#include "base/float_mode.h"

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
};
const char* kind_name(Kind kind) noexcept;

struct HandleHead {
  explicit HandleHead(Kind kind);
  ~HandleHead();
  HandleHead(const HandleHead&) = delete;
  HandleHead& operator=(const HandleHead&) = delete;

  static constexpr uint32_t kReleased = uint32_t{1} << 31;
  std::atomic<uint32_t> stamp;                  // the kind; 0 once destroyed
  mutable std::atomic<uint32_t> uses{0};        // calls that use the handle, and kReleased
  mutable std::atomic<std::thread::id> owner{}; // the thread whose call has the object for itself
};

template <Kind K> struct Handle : HandleHead {
  static constexpr Kind kKind = K;
  Handle() : HandleHead(K) {}
};

// A release while a call uses the handle is deferred: new calls are refused at once, the last call that leaves destroys
// the object. In debug builds every living handle is also kept in a table, so that a released or foreign pointer is distinguished
// apart without reading it; a release build reads the stamp.

// Begins a use. False when `handle` is no living handle of this kind. REQUIRES: not null.
bool enter(const HandleHead* handle, Kind kind) noexcept;
// The same by the stamp alone, without a lock: for signal handlers.
bool enter_by_stamp(const HandleHead* handle, Kind kind) noexcept;
// Ends a use. True: it was the last one of a released handle, the caller destroys it.
bool leave(const HandleHead* handle) noexcept;
// No use begins from here on. True: no call uses the handle, the caller destroys it. False also for what is no living
// handle of this kind.
bool retire(const HandleHead* handle, Kind kind) noexcept;

// Whether this process was forked while another thread was inside of a call: locks and objects of that call stay as they
// were, so no handle of the parent can be used.
bool is_forked_inside_calls() noexcept;

// The uses of one call of the C ABI: need() begins them, the end of the scope ends them. Scopes of one thread nest (a
// callback calls the library again).
class CallScope {
public:
  using Destroy = void (*)(const HandleHead*);
  CallScope() noexcept;
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  // Of the innermost call of this thread. Fails with internal when there is none.
  static CallScope& innermost();
  // False as enter().
  bool use(const HandleHead* handle, Kind kind, Destroy destroy);
  // Has the handle for this thread until the call ends; calls of the same thread nest. REQUIRES: used by this call. False:
  // a call on another thread has it.
  bool own(const HandleHead* handle);

private:
  static constexpr int kMost = 12; // handles in one signature, with room
  struct Use {
    const HandleHead* handle;
    Destroy destroy;
    bool is_owned = false; // from this call on
  };
  CallScope* outer_;
  const FloatMode numbers_; // of the call: the caller may have set another
  int count_ = 0;
  Use uses_[kMost];
};

// One use, for functions without a status: true for a living handle.
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

// What every dllm_*_release does.
template <class H> void release(H* handle) noexcept {
  if (is_forked_inside_calls()) return; // a destructor could wait for a thread that the child lacks
  if (handle != nullptr && retire(handle, H::kKind)) delete handle;
}

} // namespace dllm::abi
