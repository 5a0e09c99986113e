// Arrays on devices, their way there and back.

#include "calls.h"
#include "guard.h"

namespace fake {

abi::Buffer* make_buffer(abi::Buffer content) {
  auto* buffer = new abi::Buffer(std::move(content));
  State::get().add("buffer", buffer);
  return buffer;
}

namespace {

bool lives(abi::Buffer* buffer, const char* call) {
  return State::get().check("buffer", buffer, call);
}

int64_t transfer_ms() {
  const std::lock_guard lock(State::get().mutex);
  return State::get().settings.transfer_ms;
}

std::shared_ptr<Moment> finished() {
  auto moment = std::make_shared<Moment>();
  moment->finish();
  return moment;
}

// The host's memory becomes the buffer's.
void borrow(const abi::ClientBufferFromHostBufferArgs& args, abi::Device* device,
            abi::Buffer* out) {
  auto storage = std::make_shared<Storage>();
  storage->device = device;
  storage->data = static_cast<char*>(const_cast<void*>(args.data));
  storage->size = out->type.bytes();
  storage->returned = std::make_shared<Moment>();
  storage->returned->waits_for_caller = true;
  out->storage = storage;
  out->ready = finished();
}

// Late, when the host's memory may be read after the call: a caller that frees it too early is
// found by a sanitizer.
void copy_in(const void* from, const std::shared_ptr<Storage>& to, bool late,
             const std::shared_ptr<Moment>& done) {
  to->filled = done;
  State::get().later(late ? transfer_ms() : 0, [from, to, done] {
    if (to->size > 0) std::memcpy(to->data, from, to->size);
    done->finish();
  });
}

} // namespace

Error* client_buffer_from_host_buffer(abi::ClientBufferFromHostBufferArgs* args) {
  if (!State::get().check("client", args->client, "PJRT_Client_BufferFromHostBuffer"))
    return invalid("no client");
  if (args->device_layout != nullptr) State::get().violation("BufferFromHostBuffer: device_layout");
  if (args->num_byte_strides != 0) return make_error(12, "the fake plugin takes dense arrays only");
  abi::Device* device = args->memory != nullptr ? args->memory->device : args->device;
  if (device == nullptr) return invalid("neither device nor memory");
  abi::Buffer buffer{
      args->client, device, {args->type, {args->dims, args->dims + args->num_dims}}, {}, {}};
  if (size_of(args->type) == 0) return invalid("unknown element type");
  const auto semantics = args->host_buffer_semantics;
  const bool share = semantics == abi::HostBufferSemantics::zero_copy ||
                     semantics == abi::HostBufferSemantics::mutable_zero_copy;
  std::shared_ptr<Moment> host_done;
  if (share && reinterpret_cast<uintptr_t>(args->data) % 64 == 0) {
    borrow(*args, device, &buffer);
    host_done = buffer.storage->returned;
  } else {
    if (Error* full = allocate(device, buffer.type.bytes(), &buffer.storage)) return full;
    buffer.ready = std::make_shared<Moment>();
    copy_in(args->data, buffer.storage,
            semantics == abi::HostBufferSemantics::until_transfer_completes, buffer.ready);
    host_done = buffer.ready;
  }
  args->done_with_host_buffer = make_event(host_done);
  args->buffer = make_buffer(std::move(buffer));
  return nullptr;
}

Error* client_create_uninitialized_buffer(abi::ClientCreateUninitializedBufferArgs* args) {
  abi::Device* device = args->memory != nullptr ? args->memory->device : args->device;
  const int64_t* dims = args->shape_dims;
  abi::Buffer buffer{args->client,
                     device,
                     {args->shape_element_type, {dims, dims + args->shape_num_dims}},
                     {},
                     finished()};
  if (Error* full = allocate(device, buffer.type.bytes(), &buffer.storage)) return full;
  args->buffer = make_buffer(std::move(buffer));
  return nullptr;
}

Error* buffer_to_host_buffer(abi::BufferToHostBufferArgs* args) {
  if (!lives(args->src, "PJRT_Buffer_ToHostBuffer")) return invalid("no buffer");
  if (args->host_layout == nullptr) {
    State::get().violation(
        "PJRT_Buffer_ToHostBuffer: host_layout is null, the order would be the device's");
  } else {
    check_struct(*args->host_layout);
    const abi::BufferMemoryLayoutTiled& tiled = args->host_layout->tiled;
    check_struct(tiled);
    if (args->host_layout->type != abi::BufferMemoryLayoutType::tiled || tiled.num_tiles != 0 ||
        tiled.minor_to_major_size != args->src->type.dims.size())
      return invalid("host_layout must be dense");
    for (size_t i = 0; i < tiled.minor_to_major_size; ++i)
      if (tiled.minor_to_major[i] != static_cast<int64_t>(tiled.minor_to_major_size - 1 - i))
        State::get().violation("PJRT_Buffer_ToHostBuffer: host_layout is not row-major");
  }
  const auto storage = args->src->storage;
  if (storage == nullptr) return invalid("ToLiteral() called on deleted or donated buffer");
  const size_t size = args->src->type.bytes();
  if (args->dst == nullptr) {
    args->dst_size = size;
    return nullptr;
  }
  if (args->dst_size < size) return invalid("dst_size is too small");
  auto done = std::make_shared<Moment>();
  const auto ready = args->src->ready;
  const auto copy = [storage, ready, done, to = args->dst, size] {
    ready->wait();
    if (storage->filled) storage->filled->wait();
    if (ready->code() == 0 && size > 0) std::memcpy(to, storage->data, size);
    done->finish(ready->code(), ready->message());
  };
  // A buffer that is not ready is waited for on another thread, as by real plugins.
  const int64_t late = transfer_ms();
  State::get().later(late > 0 || ready->is_ready() ? late : 1, copy);
  args->event = make_event(done);
  return nullptr;
}

Error* buffer_destroy(abi::BufferDestroyArgs* args) {
  if (State::get().remove("buffer", args->buffer, "PJRT_Buffer_Destroy")) delete args->buffer;
  return nullptr;
}

Error* buffer_delete(abi::BufferDeleteArgs* args) {
  if (lives(args->buffer, "PJRT_Buffer_Delete")) args->buffer->storage = nullptr;
  return nullptr;
}

Error* buffer_is_deleted(abi::BufferIsDeletedArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_IsDeleted")) return invalid("no buffer");
  args->is_deleted = args->buffer->storage == nullptr;
  return nullptr;
}

Error* buffer_element_type(abi::BufferElementTypeArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_ElementType")) return invalid("no buffer");
  args->type = args->buffer->type.type;
  return nullptr;
}

Error* buffer_dimensions(abi::BufferDimensionsArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_Dimensions")) return invalid("no buffer");
  args->dims = args->buffer->type.dims.data();
  args->num_dims = args->buffer->type.dims.size();
  return nullptr;
}

Error* buffer_on_device_size_in_bytes(abi::BufferOnDeviceSizeInBytesArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_OnDeviceSizeInBytes")) return invalid("no buffer");
  args->on_device_size_in_bytes = args->buffer->type.bytes();
  return nullptr;
}

Error* buffer_device(abi::BufferDeviceArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_Device")) return invalid("no buffer");
  args->device = args->buffer->device;
  return nullptr;
}

Error* buffer_memory(abi::BufferMemoryArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_Memory")) return invalid("no buffer");
  args->memory = &args->buffer->device->memory;
  return nullptr;
}

Error* buffer_ready_event(abi::BufferReadyEventArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_ReadyEvent")) return invalid("no buffer");
  args->event = make_event(args->buffer->ready);
  return nullptr;
}

Error* buffer_copy_to_device(abi::BufferCopyToDeviceArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_CopyToDevice")) return invalid("no buffer");
  if (args->buffer->storage == nullptr) return invalid("Buffer has been deleted or donated.");
  abi::Buffer copy{
      args->buffer->client, args->dst_device, args->buffer->type, {}, args->buffer->ready};
  if (Error* full = allocate(args->dst_device, copy.type.bytes(), &copy.storage)) return full;
  if (args->buffer->storage->filled) args->buffer->storage->filled->wait();
  std::memcpy(copy.storage->data, args->buffer->storage->data, copy.storage->size);
  args->dst_buffer = make_buffer(std::move(copy));
  return nullptr;
}

Error* buffer_is_on_cpu(abi::BufferIsOnCpuArgs* args) {
  args->is_on_cpu = true;
  return nullptr;
}

Error* buffer_unsafe_pointer(abi::BufferUnsafePointerArgs* args) {
  if (!lives(args->buffer, "PJRT_Buffer_UnsafePointer")) return invalid("no buffer");
  if (args->buffer->storage == nullptr) return invalid("Buffer has been deleted or donated.");
  args->buffer_pointer = reinterpret_cast<uintptr_t>(args->buffer->storage->data);
  return nullptr;
}

} // namespace fake
