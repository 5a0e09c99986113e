#pragma once
// An array on one device, as the plugin has it. DeviceBuffer (device_buffer.h) is what engines hand
// out.

#include "pjrt/event.h"
#include "tensor/tensor.h"

#include <memory>
#include <optional>

namespace dllm::pjrt {

class Client;

// Move-only; keeps its client alive. Reads may run together; not while it is donated.
class Array {
public:
  Array() = default;
  Array(std::shared_ptr<const Client> client, abi::Buffer* buffer);
  Array(Array&&) noexcept = default;
  Array& operator=(Array&& other) noexcept;
  ~Array() = default; // handle_ goes before client_

  explicit operator bool() const { return static_cast<bool>(handle_); }
  abi::Buffer* get() const { return handle_.get(); }

  DType dtype() const;
  Shape shape() const;
  int64_t device_bytes() const; // padding of the device included
  abi::Device* device() const;
  bool is_deleted() const; // donated, or deleted by hand
  EventHandle ready() const;
  // The address on the device; for tests and zero-copy checks.
  uintptr_t unsafe_pointer() const;
  // Starts a copy, row-major, to `into`, which must live until the event has happened. REQUIRES:
  // `into` has the type and shape of the buffer.
  EventHandle copy_to(Tensor& into) const;
  Tensor read() const; // waits

private:
  std::shared_ptr<const Client> client_;
  Handle<abi::Buffer, abi::BufferDestroyArgs, &abi::BufferDestroyArgs::buffer,
         &abi::Api::buffer_destroy>
      handle_;
};

// Keeps the storage of a tensor alive until an event has happened. When the plugin cannot call
// back, waits and fails. REQUIRES: the event happens by itself.
void hold_until(const EventHandle& event, const Tensor& tensor);

} // namespace dllm::pjrt
