#pragma once
// Arguments of the functions on devices, their memories, and topologies.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

// Devices, their descriptions and their memories.

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

// Topologies describe hardware that may not be on this machine.

struct SerializedTopology;

struct TopologyDescriptionCreateArgs {
  Head head;
  const char* topology_name;
  size_t topology_name_size;
  const NamedValue* create_options;
  size_t num_options;
  TopologyDescription* topology; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionCreateArgs, "PJRT_TopologyDescription_Create", topology);

struct TopologyDescriptionDestroyArgs {
  Head head;
  TopologyDescription* topology;
};
DLLM_PJRT_STRUCT(TopologyDescriptionDestroyArgs, "PJRT_TopologyDescription_Destroy", topology);

struct TopologyDescriptionPlatformNameArgs {
  Head head;
  const TopologyDescription* topology;
  const char* platform_name; // out
  size_t platform_name_size; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionPlatformNameArgs, "PJRT_TopologyDescription_PlatformName",
                 platform_name_size);

struct TopologyDescriptionPlatformVersionArgs {
  Head head;
  TopologyDescription* topology;
  const char* platform_version; // out
  size_t platform_version_size; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionPlatformVersionArgs, "PJRT_TopologyDescription_PlatformVersion",
                 platform_version_size);

struct TopologyDescriptionGetDeviceDescriptionsArgs {
  Head head;
  const TopologyDescription* topology;
  DeviceDescription* const* descriptions; // out
  size_t num_descriptions;                // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionGetDeviceDescriptionsArgs,
                 "PJRT_TopologyDescription_GetDeviceDescriptions", num_descriptions);

struct TopologyDescriptionSerializeArgs {
  Head head;
  TopologyDescription* topology;
  const char* serialized_bytes;            // out
  size_t serialized_bytes_size;            // out
  SerializedTopology* serialized_topology; // out
  // out
  void (*serialized_topology_deleter)(SerializedTopology* serialized_topology);
};
DLLM_PJRT_STRUCT(TopologyDescriptionSerializeArgs, "PJRT_TopologyDescription_Serialize",
                 serialized_topology_deleter);

struct TopologyDescriptionDeserializeArgs {
  Head head;
  const char* serialized_topology;
  size_t serialized_topology_size;
  TopologyDescription* topology; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionDeserializeArgs, "PJRT_TopologyDescription_Deserialize",
                 topology);

struct TopologyDescriptionAttributesArgs {
  Head head;
  TopologyDescription* topology;
  const NamedValue* attributes; // out
  size_t num_attributes;        // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionAttributesArgs, "PJRT_TopologyDescription_Attributes",
                 num_attributes);

struct TopologyDescriptionFingerprintArgs {
  Head head;
  const TopologyDescription* topology;
  uint64_t fingerprint; // out
};
DLLM_PJRT_STRUCT(TopologyDescriptionFingerprintArgs, "PJRT_TopologyDescription_Fingerprint",
                 fingerprint);

} // namespace dllm::pjrt::abi
