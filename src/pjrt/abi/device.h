#pragma once
// Devices, their descriptions and their memories.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

struct DeviceDescriptionIdArgs {
  Head head;
  DeviceDescription* device_description;
  int id; // out
};
DLLM_PJRT_STRUCT(DeviceDescriptionIdArgs, "PJRT_DeviceDescription_Id", id);

struct DeviceDescriptionProcessIndexArgs {
  Head head;
  DeviceDescription* device_description;
  int process_index; // out
};
DLLM_PJRT_STRUCT(DeviceDescriptionProcessIndexArgs, "PJRT_DeviceDescription_ProcessIndex",
                 process_index);

struct DeviceDescriptionAttributesArgs {
  Head head;
  DeviceDescription* device_description;
  size_t num_attributes;        // out
  const NamedValue* attributes; // out
};
DLLM_PJRT_STRUCT(DeviceDescriptionAttributesArgs, "PJRT_DeviceDescription_Attributes", attributes);

struct DeviceDescriptionKindArgs {
  Head head;
  DeviceDescription* device_description;
  const char* device_kind; // out
  size_t device_kind_size; // out
};
DLLM_PJRT_STRUCT(DeviceDescriptionKindArgs, "PJRT_DeviceDescription_Kind", device_kind_size);

struct DeviceDescriptionDebugStringArgs {
  Head head;
  DeviceDescription* device_description;
  const char* debug_string; // out
  size_t debug_string_size; // out
};
DLLM_PJRT_STRUCT(DeviceDescriptionDebugStringArgs, "PJRT_DeviceDescription_DebugString",
                 debug_string_size);

struct DeviceDescriptionToStringArgs {
  Head head;
  DeviceDescription* device_description;
  const char* to_string; // out
  size_t to_string_size; // out
};
DLLM_PJRT_STRUCT(DeviceDescriptionToStringArgs, "PJRT_DeviceDescription_ToString", to_string_size);

struct DeviceGetDescriptionArgs {
  Head head;
  Device* device;
  DeviceDescription* device_description; // out
};
DLLM_PJRT_STRUCT(DeviceGetDescriptionArgs, "PJRT_Device_GetDescription", device_description);

struct DeviceIsAddressableArgs {
  Head head;
  Device* device;
  bool is_addressable; // out
};
DLLM_PJRT_STRUCT(DeviceIsAddressableArgs, "PJRT_Device_IsAddressable", is_addressable);

struct DeviceLocalHardwareIdArgs {
  Head head;
  Device* device;
  int local_hardware_id; // out
};
DLLM_PJRT_STRUCT(DeviceLocalHardwareIdArgs, "PJRT_Device_LocalHardwareId", local_hardware_id);

struct DeviceAddressableMemoriesArgs {
  Head head;
  Device* device;
  Memory* const* memories; // out
  size_t num_memories;     // out
};
DLLM_PJRT_STRUCT(DeviceAddressableMemoriesArgs, "PJRT_Device_AddressableMemories", num_memories);

struct DeviceDefaultMemoryArgs {
  Head head;
  Device* device;
  Memory* memory; // out
};
DLLM_PJRT_STRUCT(DeviceDefaultMemoryArgs, "PJRT_Device_DefaultMemory", memory);

struct DeviceMemoryStatsArgs {
  Head head;
  Device* device;
  int64_t bytes_in_use;                 // out
  int64_t peak_bytes_in_use;            // out
  bool peak_bytes_in_use_is_set;        // out
  int64_t num_allocs;                   // out
  bool num_allocs_is_set;               // out
  int64_t largest_alloc_size;           // out
  bool largest_alloc_size_is_set;       // out
  int64_t bytes_limit;                  // out
  bool bytes_limit_is_set;              // out
  int64_t bytes_reserved;               // out
  bool bytes_reserved_is_set;           // out
  int64_t peak_bytes_reserved;          // out
  bool peak_bytes_reserved_is_set;      // out
  int64_t bytes_reservable_limit;       // out
  bool bytes_reservable_limit_is_set;   // out
  int64_t largest_free_block_bytes;     // out
  bool largest_free_block_bytes_is_set; // out
  int64_t pool_bytes;                   // out
  bool pool_bytes_is_set;               // out
  int64_t peak_pool_bytes;              // out
  bool peak_pool_bytes_is_set;          // out
  int64_t peak_allocated_bytes;         // out
  bool peak_allocated_bytes_is_set;     // out
};
DLLM_PJRT_STRUCT(DeviceMemoryStatsArgs, "PJRT_Device_MemoryStats", peak_allocated_bytes_is_set);

struct DeviceClearMemoryStatsArgs {
  Head head;
  Device* device;
};
DLLM_PJRT_STRUCT(DeviceClearMemoryStatsArgs, "PJRT_Device_ClearMemoryStats", device);

struct MemoryIdArgs {
  Head head;
  Memory* memory;
  int id; // out
};
DLLM_PJRT_STRUCT(MemoryIdArgs, "PJRT_Memory_Id", id);

struct MemoryKindArgs {
  Head head;
  Memory* memory;
  const char* kind; // out
  size_t kind_size; // out
};
DLLM_PJRT_STRUCT(MemoryKindArgs, "PJRT_Memory_Kind", kind_size);

struct MemoryDebugStringArgs {
  Head head;
  Memory* memory;
  const char* debug_string; // out
  size_t debug_string_size; // out
};
DLLM_PJRT_STRUCT(MemoryDebugStringArgs, "PJRT_Memory_DebugString", debug_string_size);

struct MemoryToStringArgs {
  Head head;
  Memory* memory;
  const char* to_string; // out
  size_t to_string_size; // out
};
DLLM_PJRT_STRUCT(MemoryToStringArgs, "PJRT_Memory_ToString", to_string_size);

struct MemoryAddressableByDevicesArgs {
  Head head;
  Memory* memory;
  Device* const* devices; // out
  size_t num_devices;     // out
};
DLLM_PJRT_STRUCT(MemoryAddressableByDevicesArgs, "PJRT_Memory_AddressableByDevices", num_devices);

} // namespace dllm::pjrt::abi
