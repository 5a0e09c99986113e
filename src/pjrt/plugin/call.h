#pragma once
// The one place that calls into a plugin's table. A plugin's error becomes a dllm::Error of the same code (the numbers are
// the same) with the plugin's text in it. Also events: what a plugin will have done later.

#include "base/error.h"
#include "pjrt/abi/table.h"

#include <functional>
#include <utility>

namespace dllm::pjrt {

// True when the plugin's table is long enough to hold the slot and the slot is filled. The minor
// version is no proof: numbers were used twice.
template <class Slot> bool has_slot(const abi::Api& api, Slot abi::Api::*slot) {
  const auto* begin = reinterpret_cast<const std::byte*>(&api);
  const auto* entry = reinterpret_cast<const std::byte*>(&(api.*slot));
  return static_cast<size_t>(entry - begin) + sizeof(Slot) <= api.struct_size &&
         api.*slot != nullptr;
}

// Copies code and text of a plugin's error and destroys it. REQUIRES: error is not null.
Error take_error(const abi::Api& api, abi::Error* error, const char* function);
[[noreturn]] void fail_missing(const abi::Api& api, const char* function);

// A zeroed struct with its size written in.
template <class Args> Args sized() {
  Args args{};
  if constexpr (requires { args.head; }) {
    args.head.struct_size = abi::kSize<Args>;
  } else {
    args.struct_size = abi::kSize<Args>;
  }
  return args;
}

// call(api, &abi::Api::client_destroy, args): fails with the plugin's error, or with unimplemented
// when the plugin lacks the function.
template <class Args> void call(const abi::Api& api, abi::Call<Args> abi::Api::*slot, Args& args) {
  args.head.struct_size = abi::kSize<Args>;
  if (!has_slot(api, slot)) fail_missing(api, abi::kFunction<Args>);
  if (abi::Error* error = (api.*slot)(&args)) throw take_error(api, error, abi::kFunction<Args>);
}

// For destructors: what goes wrong is logged and forgotten.
template <class Args>
void call_quietly(const abi::Api& api, abi::Call<Args> abi::Api::*slot, Args& args) noexcept {
  try {
    call(api, slot, args);
  } catch (const Error&) { // take_error logged it
  }
}

// An object of a plugin that is destroyed with its last owner.
// Handle<abi::Event, abi::EventDestroyArgs, &abi::EventDestroyArgs::event,
// &abi::Api::event_destroy>
template <class T, class DestroyArgs, T* DestroyArgs::*member,
          abi::Call<DestroyArgs> abi::Api::*destroy>
class Handle {
public:
  Handle() = default;
  Handle(const abi::Api& api, T* object) : api_(&api), object_(object) {}
  Handle(Handle&& other) noexcept
      : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() { reset(); }

  explicit operator bool() const { return object_ != nullptr; }
  T* get() const { return object_; }
  const abi::Api& api() const { return *api_; }
  T* release() { return std::exchange(object_, nullptr); }
  void reset() {
    if (object_ == nullptr) return;
    DestroyArgs args{};
    args.*member = std::exchange(object_, nullptr);
    call_quietly(*api_, destroy, args);
  }

private:
  const abi::Api* api_ = nullptr; // plugins are never unloaded
  T* object_ = nullptr;
};

using EventHandle = Handle<abi::Event, abi::EventDestroyArgs, &abi::EventDestroyArgs::event,
                           &abi::Api::event_destroy>;

// Blocks until it happened; fails with the error it ended with. An empty event has happened.
void await(const EventHandle& event);
bool is_ready(const EventHandle& event);
// Calls `done` once, on any thread or before this returns; it must be short and must not call the
// plugin. The event may be destroyed at once. Errors of the event are dropped.
void when_ready(const EventHandle& event, std::function<void()> done);

} // namespace dllm::pjrt
