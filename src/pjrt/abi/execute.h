#pragma once
// Executables that are loaded on devices, and running them.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

struct ExecuteContext;
struct MultiSliceConfig;
struct SendCallbackInfo;
struct RecvCallbackInfo;
struct HloOutputCallbackInfo;

struct LoadOptions {
  size_t struct_size;
  const int32_t* computation_origin;
  size_t computation_origin_size;
  MultiSliceConfig* multi_slice_config;
};
DLLM_PJRT_STRUCT(LoadOptions, "PJRT_LoadOptions", multi_slice_config);

struct ExecutableDeserializeAndLoadArgs {
  Head head;
  Client* client;
  const char* serialized_executable;
  size_t serialized_executable_size;
  LoadedExecutable* loaded_executable; // out
  const char* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
  LoadOptions* load_options;
};
DLLM_PJRT_STRUCT(ExecutableDeserializeAndLoadArgs, "PJRT_Executable_DeserializeAndLoad",
                 load_options);

struct LoadedExecutableDestroyArgs {
  Head head;
  LoadedExecutable* executable;
};
DLLM_PJRT_STRUCT(LoadedExecutableDestroyArgs, "PJRT_LoadedExecutable_Destroy", executable);

struct LoadedExecutableGetExecutableArgs {
  Head head;
  LoadedExecutable* loaded_executable;
  Executable* executable; // out
};
DLLM_PJRT_STRUCT(LoadedExecutableGetExecutableArgs, "PJRT_LoadedExecutable_GetExecutable",
                 executable);

struct LoadedExecutableAddressableDevicesArgs {
  Head head;
  LoadedExecutable* executable;
  Device* const* addressable_devices; // out
  size_t num_addressable_devices;     // out
};
DLLM_PJRT_STRUCT(LoadedExecutableAddressableDevicesArgs, "PJRT_LoadedExecutable_AddressableDevices",
                 num_addressable_devices);

struct LoadedExecutableDeleteArgs {
  Head head;
  LoadedExecutable* executable;
};
DLLM_PJRT_STRUCT(LoadedExecutableDeleteArgs, "PJRT_LoadedExecutable_Delete", executable);

struct LoadedExecutableIsDeletedArgs {
  Head head;
  LoadedExecutable* executable;
  bool is_deleted; // out
};
DLLM_PJRT_STRUCT(LoadedExecutableIsDeletedArgs, "PJRT_LoadedExecutable_IsDeleted", is_deleted);

struct LoadedExecutableFingerprintArgs {
  Head head;
  LoadedExecutable* executable;
  const char* executable_fingerprint; // out
  size_t executable_fingerprint_size; // out
};
DLLM_PJRT_STRUCT(LoadedExecutableFingerprintArgs, "PJRT_LoadedExecutable_Fingerprint",
                 executable_fingerprint_size);

struct ExecuteOptions {
  Head head;
  SendCallbackInfo** send_callbacks;
  RecvCallbackInfo** recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  ExecuteContext* context;
  const char* call_location;
  size_t num_tasks;
  int* task_ids;
  int64_t* incarnation_ids;
  MultiSliceConfig* multi_slice_config;
  bool use_major_to_minor_data_layout_for_callbacks;
  HloOutputCallbackInfo* hlo_output_callbacks;
  size_t num_hlo_output_callbacks;
};
DLLM_PJRT_STRUCT(ExecuteOptions, "PJRT_ExecuteOptions", num_hlo_output_callbacks);

struct LoadedExecutableExecuteArgs {
  Head head;
  LoadedExecutable* executable;
  ExecuteOptions* options;
  Buffer* const* const* argument_lists;
  size_t num_devices;
  size_t num_args;
  Buffer** const* output_lists;   // inout
  Event** device_complete_events; // inout
  Device* execute_device;
};
DLLM_PJRT_STRUCT(LoadedExecutableExecuteArgs, "PJRT_LoadedExecutable_Execute", execute_device);

} // namespace dllm::pjrt::abi
