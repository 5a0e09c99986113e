#pragma once
// Arguments of the functions on errors, plugins, events and clients.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

// Errors, plugins and events.

// The callback owns `error`, which may be null. It runs on any thread, maybe before the call that
// sets it returns.
using EventOnReadyCallback = void (*)(Error* error, void* user_arg);

struct ErrorDestroyArgs {
  Head head;
  Error* error;
};
DLLM_PJRT_STRUCT(ErrorDestroyArgs, "PJRT_Error_Destroy", error);

struct ErrorMessageArgs {
  Head head;
  const Error* error;
  const char* message; // out
  size_t message_size; // out
};
DLLM_PJRT_STRUCT(ErrorMessageArgs, "PJRT_Error_Message", message_size);

struct ErrorGetCodeArgs {
  Head head;
  const Error* error;
  ErrorCode code; // out
};
DLLM_PJRT_STRUCT(ErrorGetCodeArgs, "PJRT_Error_GetCode", code);

struct PluginInitializeArgs {
  Head head;
};
DLLM_PJRT_STRUCT(PluginInitializeArgs, "PJRT_Plugin_Initialize", head);

struct PluginAttributesArgs {
  Head head;
  const NamedValue* attributes; // out
  size_t num_attributes;        // out
};
DLLM_PJRT_STRUCT(PluginAttributesArgs, "PJRT_Plugin_Attributes", num_attributes);

struct EventDestroyArgs {
  Head head;
  Event* event;
};
DLLM_PJRT_STRUCT(EventDestroyArgs, "PJRT_Event_Destroy", event);

struct EventIsReadyArgs {
  Head head;
  Event* event;
  bool is_ready; // out
};
DLLM_PJRT_STRUCT(EventIsReadyArgs, "PJRT_Event_IsReady", is_ready);

struct EventErrorArgs {
  Head head;
  Event* event;
};
DLLM_PJRT_STRUCT(EventErrorArgs, "PJRT_Event_Error", event);

struct EventAwaitArgs {
  Head head;
  Event* event;
};
DLLM_PJRT_STRUCT(EventAwaitArgs, "PJRT_Event_Await", event);

struct EventOnReadyArgs {
  Head head;
  Event* event;
  EventOnReadyCallback callback;
  void* user_arg;
};
DLLM_PJRT_STRUCT(EventOnReadyArgs, "PJRT_Event_OnReady", user_arg);

struct EventCreateArgs {
  Head head;
  Event* event; // out
};
DLLM_PJRT_STRUCT(EventCreateArgs, "PJRT_Event_Create", event);

struct EventSetArgs {
  Head head;
  Event* event;
  ErrorCode error_code;
  const char* error_message;
  size_t error_message_size;
};
DLLM_PJRT_STRUCT(EventSetArgs, "PJRT_Event_Set", error_message_size);

// Clients. This library implements the three callbacks of the key-value store. The plugin calls
// them on several of its threads at once. It does not set the heads of the arguments; for a client
// of one process it sets no field.

// Makes an error of the plugin, which a callback returns when it fails.
using CallbackError = Error* (*)(ErrorCode code, const char* message, size_t message_size);
using KeyValueDeleter = void (*)(char* value);

// Waits for the key. On success the callback allocates `value`, and the plugin passes it to
// `deleter` when it has copied the value.
struct KeyValueGetCallbackArgs {
  Head head;
  const char* key;
  size_t key_size;
  int timeout_in_ms;
  CallbackError* callback_error;
  void* user_arg;
  char* value;             // out
  size_t value_size;       // out
  KeyValueDeleter deleter; // out
};
DLLM_PJRT_STRUCT(KeyValueGetCallbackArgs, "PJRT_KeyValueGetCallback", deleter);

// Returns not_found for an absent key instead of waiting.
struct KeyValueTryGetCallbackArgs {
  Head head;
  const char* key;
  size_t key_size;
  CallbackError* callback_error;
  void* user_arg;
  char* value;             // out
  size_t value_size;       // out
  KeyValueDeleter deleter; // out
};
DLLM_PJRT_STRUCT(KeyValueTryGetCallbackArgs, "PJRT_KeyValueTryGetCallback", deleter);

struct KeyValuePutCallbackArgs {
  Head head;
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
  CallbackError* callback_error;
  void* user_arg;
};
DLLM_PJRT_STRUCT(KeyValuePutCallbackArgs, "PJRT_KeyValuePutCallback", user_arg);

using KeyValueGetCallback = Error* (*)(KeyValueGetCallbackArgs*);
using KeyValueTryGetCallback = Error* (*)(KeyValueTryGetCallbackArgs*);
using KeyValuePutCallback = Error* (*)(KeyValuePutCallbackArgs*);

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
