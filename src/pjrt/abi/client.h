#pragma once
// Clients. The key-value store of several hosts is not offered, its callbacks stay null.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

using KeyValueGetCallback = Unused;
using KeyValuePutCallback = Unused;
using KeyValueTryGetCallback = Unused;

struct ClientCreateArgs {
  Head head;
  const NamedValue* create_options;
  size_t num_options;
  KeyValueGetCallback kv_get_callback;
  void* kv_get_user_arg;
  KeyValuePutCallback kv_put_callback;
  void* kv_put_user_arg;
  Client* client; // out
  KeyValueTryGetCallback kv_try_get_callback;
  void* kv_try_get_user_arg;
};
DLLM_PJRT_STRUCT(ClientCreateArgs, "PJRT_Client_Create", kv_try_get_user_arg);

struct ClientDestroyArgs {
  Head head;
  Client* client;
};
DLLM_PJRT_STRUCT(ClientDestroyArgs, "PJRT_Client_Destroy", client);

struct ClientPlatformNameArgs {
  Head head;
  Client* client;
  const char* platform_name; // out
  size_t platform_name_size; // out
};
DLLM_PJRT_STRUCT(ClientPlatformNameArgs, "PJRT_Client_PlatformName", platform_name_size);

struct ClientProcessIndexArgs {
  Head head;
  Client* client;
  int process_index; // out
};
DLLM_PJRT_STRUCT(ClientProcessIndexArgs, "PJRT_Client_ProcessIndex", process_index);

struct ClientPlatformVersionArgs {
  Head head;
  Client* client;
  const char* platform_version; // out
  size_t platform_version_size; // out
};
DLLM_PJRT_STRUCT(ClientPlatformVersionArgs, "PJRT_Client_PlatformVersion", platform_version_size);

struct ClientTopologyDescriptionArgs {
  Head head;
  Client* client;
  TopologyDescription* topology; // out
};
DLLM_PJRT_STRUCT(ClientTopologyDescriptionArgs, "PJRT_Client_TopologyDescription", topology);

struct ClientDevicesArgs {
  Head head;
  Client* client;
  Device* const* devices; // out
  size_t num_devices;     // out
};
DLLM_PJRT_STRUCT(ClientDevicesArgs, "PJRT_Client_Devices", num_devices);

struct ClientAddressableDevicesArgs {
  Head head;
  Client* client;
  Device* const* addressable_devices; // out
  size_t num_addressable_devices;     // out
};
DLLM_PJRT_STRUCT(ClientAddressableDevicesArgs, "PJRT_Client_AddressableDevices",
                 num_addressable_devices);

struct ClientLookupDeviceArgs {
  Head head;
  Client* client;
  int id;
  Device* device; // out
};
DLLM_PJRT_STRUCT(ClientLookupDeviceArgs, "PJRT_Client_LookupDevice", device);

struct ClientLookupAddressableDeviceArgs {
  Head head;
  Client* client;
  int local_hardware_id;
  Device* addressable_device; // out
};
DLLM_PJRT_STRUCT(ClientLookupAddressableDeviceArgs, "PJRT_Client_LookupAddressableDevice",
                 addressable_device);

struct ClientAddressableMemoriesArgs {
  Head head;
  Client* client;
  Memory* const* addressable_memories; // out
  size_t num_addressable_memories;     // out
};
DLLM_PJRT_STRUCT(ClientAddressableMemoriesArgs, "PJRT_Client_AddressableMemories",
                 num_addressable_memories);

struct ClientDefaultDeviceAssignmentArgs {
  Head head;
  Client* client;
  int num_replicas;
  int num_partitions;
  size_t default_assignment_size;
  int* default_assignment; // inout
};
DLLM_PJRT_STRUCT(ClientDefaultDeviceAssignmentArgs, "PJRT_Client_DefaultDeviceAssignment",
                 default_assignment);

} // namespace dllm::pjrt::abi
