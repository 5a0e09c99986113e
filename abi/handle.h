#pragma once
// What is behind an opaque pointer: a stamp that tells its kind, then the object. Every struct of include/dllm/base.h
// is defined in abi/api/<noun>_handle.h as a Handle.

#include <cstdint>

namespace dllm::abi {

enum class Kind : uint32_t {
  error = 0xD1100001, buffer, options, event, task, engine, tensor, source, model, tokenizer, dataset, loader, batch,
  schedule, objective, trainer, decoder, checkpoint, lua,
};
const char* kind_name(Kind kind) noexcept;

// In debug builds every living handle is also kept in a table, so that a released or foreign pointer is told apart
// without reading it.
void remember(const void* handle, Kind kind);
void forget(const void* handle) noexcept;
bool is_alive(const void* handle, Kind kind) noexcept;

template <Kind K>
struct Handle {
  static constexpr Kind kKind = K;
  Handle() { remember(this, K); }
  ~Handle() {
    forget(this);
    stamp = 0;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  volatile uint32_t stamp = static_cast<uint32_t>(K);  // volatile: the destructor's write must stay
};

}  // namespace dllm::abi
