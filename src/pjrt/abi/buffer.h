#pragma once
// Arguments of the functions that create, read, copy and destroy arrays on devices.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

struct BufferMemoryLayoutTiled {
  Head head;
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
};
DLLM_PJRT_STRUCT(BufferMemoryLayoutTiled, "PJRT_Buffer_MemoryLayout_Tiled", num_tiles);

struct BufferMemoryLayoutStrides {
  Head head;
  const int64_t* byte_strides;
  size_t num_byte_strides;
};
DLLM_PJRT_STRUCT(BufferMemoryLayoutStrides, "PJRT_Buffer_MemoryLayout_Strides", num_byte_strides);

struct BufferMemoryLayout {
  Head head;
  union {
    BufferMemoryLayoutTiled tiled;
    BufferMemoryLayoutStrides strides;
  };
  BufferMemoryLayoutType type;
};
DLLM_PJRT_STRUCT(BufferMemoryLayout, "PJRT_Buffer_MemoryLayout", type);

struct ClientBufferFromHostBufferArgs {
  Head head;
  Client* client;
  const void* data;
  BufferType type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;
  size_t num_byte_strides;
  HostBufferSemantics host_buffer_semantics;
  Device* device;
  Memory* memory;
  BufferMemoryLayout* device_layout;
  Event* done_with_host_buffer; // out
  Buffer* buffer;               // out
};
DLLM_PJRT_STRUCT(ClientBufferFromHostBufferArgs, "PJRT_Client_BufferFromHostBuffer", buffer);

struct ClientCreateUninitializedBufferArgs {
  Head head;
  Client* client;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  BufferType shape_element_type;
  BufferMemoryLayout* shape_layout;
  Device* device;
  Memory* memory;
  Buffer* buffer; // out
};
DLLM_PJRT_STRUCT(ClientCreateUninitializedBufferArgs, "PJRT_Client_CreateUninitializedBuffer",
                 buffer);

struct BufferToHostBufferArgs {
  Head head;
  Buffer* src;
  BufferMemoryLayout* host_layout;
  void* dst;       // inout
  size_t dst_size; // inout
  Event* event;    // out
};
DLLM_PJRT_STRUCT(BufferToHostBufferArgs, "PJRT_Buffer_ToHostBuffer", event);

struct BufferDestroyArgs {
  Head head;
  Buffer* buffer;
};
DLLM_PJRT_STRUCT(BufferDestroyArgs, "PJRT_Buffer_Destroy", buffer);

struct BufferDeleteArgs {
  Head head;
  Buffer* buffer;
};
DLLM_PJRT_STRUCT(BufferDeleteArgs, "PJRT_Buffer_Delete", buffer);

struct BufferIsDeletedArgs {
  Head head;
  Buffer* buffer;
  bool is_deleted; // out
};
DLLM_PJRT_STRUCT(BufferIsDeletedArgs, "PJRT_Buffer_IsDeleted", is_deleted);

struct BufferElementTypeArgs {
  Head head;
  Buffer* buffer;
  BufferType type; // out
};
DLLM_PJRT_STRUCT(BufferElementTypeArgs, "PJRT_Buffer_ElementType", type);

struct BufferDimensionsArgs {
  Head head;
  Buffer* buffer;
  const int64_t* dims; // out
  size_t num_dims;     // out
};
DLLM_PJRT_STRUCT(BufferDimensionsArgs, "PJRT_Buffer_Dimensions", num_dims);

struct BufferOnDeviceSizeInBytesArgs {
  Head head;
  Buffer* buffer;
  size_t on_device_size_in_bytes; // out
};
DLLM_PJRT_STRUCT(BufferOnDeviceSizeInBytesArgs, "PJRT_Buffer_OnDeviceSizeInBytes",
                 on_device_size_in_bytes);

struct BufferDeviceArgs {
  Head head;
  Buffer* buffer;
  Device* device; // out
};
DLLM_PJRT_STRUCT(BufferDeviceArgs, "PJRT_Buffer_Device", device);

struct BufferMemoryArgs {
  Head head;
  Buffer* buffer;
  Memory* memory; // out
};
DLLM_PJRT_STRUCT(BufferMemoryArgs, "PJRT_Buffer_Memory", memory);

struct BufferReadyEventArgs {
  Head head;
  Buffer* buffer;
  Event* event; // out
};
DLLM_PJRT_STRUCT(BufferReadyEventArgs, "PJRT_Buffer_ReadyEvent", event);

struct BufferCopyToDeviceArgs {
  Head head;
  Buffer* buffer;
  Device* dst_device;
  Buffer* dst_buffer; // out
};
DLLM_PJRT_STRUCT(BufferCopyToDeviceArgs, "PJRT_Buffer_CopyToDevice", dst_buffer);

struct BufferCopyToMemoryArgs {
  Head head;
  Buffer* buffer;
  Memory* dst_memory;
  Buffer* dst_buffer; // out
};
DLLM_PJRT_STRUCT(BufferCopyToMemoryArgs, "PJRT_Buffer_CopyToMemory", dst_buffer);

struct BufferIsOnCpuArgs {
  Head head;
  Buffer* buffer;
  bool is_on_cpu; // out
};
DLLM_PJRT_STRUCT(BufferIsOnCpuArgs, "PJRT_Buffer_IsOnCpu", is_on_cpu);

struct BufferUnsafePointerArgs {
  Head head;
  Buffer* buffer;
  uintptr_t buffer_pointer; // out
};
DLLM_PJRT_STRUCT(BufferUnsafePointerArgs, "PJRT_Buffer_UnsafePointer", buffer_pointer);

} // namespace dllm::pjrt::abi
