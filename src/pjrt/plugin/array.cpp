// Arrays on a device.

#include "pjrt/plugin/client.h"
#include "pjrt/plugin/values.h"

#include <numeric>

namespace dllm::pjrt {

Array::Array(std::shared_ptr<const Client> client, abi::Buffer* buffer)
    : client_(std::move(client)), handle_(client_->plugin().api(), buffer) {}

Array& Array::operator=(Array&& other) noexcept {
  handle_ = std::move(other.handle_);
  std::swap(client_, other.client_);
  return *this;
}

DType Array::dtype() const {
  abi::BufferElementTypeArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_element_type, args);
  return dtype_of(args.type);
}

Shape Array::shape() const {
  abi::BufferDimensionsArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_dimensions, args);
  return Shape(std::vector<int64_t>(args.dims, args.dims + args.num_dims));
}

int64_t Array::device_bytes() const {
  abi::BufferOnDeviceSizeInBytesArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_on_device_size_in_bytes, args);
  return static_cast<int64_t>(args.on_device_size_in_bytes);
}

abi::Device* Array::device() const {
  abi::BufferDeviceArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_device, args);
  return args.device;
}

bool Array::is_deleted() const {
  if (!handle_) return true;
  abi::BufferIsDeletedArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_is_deleted, args);
  return args.is_deleted;
}

EventHandle Array::ready() const {
  abi::BufferReadyEventArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_ready_event, args);
  return EventHandle(handle_.api(), args.event);
}

uintptr_t Array::unsafe_pointer() const {
  abi::BufferUnsafePointerArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_unsafe_pointer, args);
  return args.buffer_pointer;
}

EventHandle Array::copy_to(Tensor& into) const {
  // Always given: without it the order is the device's own, which need not be row-major.
  std::vector<int64_t> minor_to_major(static_cast<size_t>(into.shape().rank()));
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  auto layout = sized<abi::BufferMemoryLayout>();
  layout.type = abi::BufferMemoryLayoutType::tiled;
  layout.tiled = sized<abi::BufferMemoryLayoutTiled>();
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();

  abi::BufferToHostBufferArgs args{};
  args.src = handle_.get();
  args.host_layout = &layout;
  args.dst = into.mutable_bytes();
  args.dst_size = static_cast<size_t>(into.byte_size());
  call(handle_.api(), &abi::Api::buffer_to_host_buffer, args);
  return EventHandle(handle_.api(), args.event);
}

void hold_until(const EventHandle& event, const Tensor& tensor) {
  try {
    when_ready(event, [held = tensor] {});
  } catch (const Error&) {
    try {
      await(event);
    } catch (const Error&) { // over either way
    }
    throw;
  }
}

Tensor Array::read() const {
  Tensor made(dtype(), shape());
  if (made.count() > 0) await(copy_to(made));
  return made;
}

} // namespace dllm::pjrt
