#pragma once
// Arguments of the functions that compile, load and run programs.

#include "pjrt/abi/base.h"

namespace dllm::pjrt::abi {

// Compiling, and reports on compiled programs.

struct SerializedExecutable;

struct Program {
  Head head;
  char* code; // inout
  size_t code_size;
  const char* format;
  size_t format_size;
};
DLLM_PJRT_STRUCT(Program, "PJRT_Program", format_size);

struct ClientCompileArgs {
  Head head;
  Client* client;
  const Program* program;
  const char* compile_options;
  size_t compile_options_size;
  LoadedExecutable* executable; // out
};
DLLM_PJRT_STRUCT(ClientCompileArgs, "PJRT_Client_Compile", executable);

struct ClientLoadArgs {
  Head head;
  Client* client;
  Executable* executable;
  const char* compile_options;
  size_t compile_options_size;
  LoadedExecutable* loaded_executable; // out
};
DLLM_PJRT_STRUCT(ClientLoadArgs, "PJRT_Client_Load", loaded_executable);

struct CompileArgs {
  Head head;
  const TopologyDescription* topology;
  const Program* program;
  const char* compile_options;
  size_t compile_options_size;
  Client* client;
  Executable* executable; // out
};
DLLM_PJRT_STRUCT(CompileArgs, "PJRT_Compile", executable);

struct ExecutableDestroyArgs {
  Head head;
  Executable* executable;
};
DLLM_PJRT_STRUCT(ExecutableDestroyArgs, "PJRT_Executable_Destroy", executable);

struct ExecutableNameArgs {
  Head head;
  Executable* executable;
  const char* executable_name; // out
  size_t executable_name_size; // out
};
DLLM_PJRT_STRUCT(ExecutableNameArgs, "PJRT_Executable_Name", executable_name_size);

struct ExecutableNumReplicasArgs {
  Head head;
  Executable* executable;
  size_t num_replicas; // out
};
DLLM_PJRT_STRUCT(ExecutableNumReplicasArgs, "PJRT_Executable_NumReplicas", num_replicas);

struct ExecutableNumPartitionsArgs {
  Head head;
  Executable* executable;
  size_t num_partitions; // out
};
DLLM_PJRT_STRUCT(ExecutableNumPartitionsArgs, "PJRT_Executable_NumPartitions", num_partitions);

struct ExecutableNumOutputsArgs {
  Head head;
  Executable* executable;
  size_t num_outputs; // out
};
DLLM_PJRT_STRUCT(ExecutableNumOutputsArgs, "PJRT_Executable_NumOutputs", num_outputs);

struct ExecutableSizeOfGeneratedCodeInBytesArgs {
  Head head;
  Executable* executable;
  int64_t size_in_bytes; // out
};
DLLM_PJRT_STRUCT(ExecutableSizeOfGeneratedCodeInBytesArgs,
                 "PJRT_Executable_SizeOfGeneratedCodeInBytes", size_in_bytes);

struct ExecutableFingerprintArgs {
  Head head;
  Executable* executable;
  const char* executable_fingerprint; // out
  size_t executable_fingerprint_size; // out
};
DLLM_PJRT_STRUCT(ExecutableFingerprintArgs, "PJRT_Executable_Fingerprint",
                 executable_fingerprint_size);

struct ExecutableGetCostAnalysisArgs {
  Head head;
  Executable* executable;
  size_t num_properties;        // out
  const NamedValue* properties; // out
};
DLLM_PJRT_STRUCT(ExecutableGetCostAnalysisArgs, "PJRT_Executable_GetCostAnalysis", properties);

struct ExecutableGetCompiledMemoryStatsArgs {
  Head head;
  Executable* executable;
  int64_t generated_code_size_in_bytes;      // out
  int64_t argument_size_in_bytes;            // out
  int64_t output_size_in_bytes;              // out
  int64_t alias_size_in_bytes;               // out
  int64_t temp_size_in_bytes;                // out
  int64_t host_generated_code_size_in_bytes; // out
  int64_t host_argument_size_in_bytes;       // out
  int64_t host_output_size_in_bytes;         // out
  int64_t host_alias_size_in_bytes;          // out
  int64_t host_temp_size_in_bytes;           // out
  int64_t peak_memory_in_bytes;              // out
  int64_t total_size_in_bytes;               // out
  int64_t total_allocation_bytes;            // out
  int64_t indefinite_allocations;            // out
  int64_t peak_unpadded_heap_bytes;          // out
};
DLLM_PJRT_STRUCT(ExecutableGetCompiledMemoryStatsArgs, "PJRT_Executable_GetCompiledMemoryStats",
                 peak_unpadded_heap_bytes);

struct ExecutableOutputElementTypesArgs {
  Head head;
  Executable* executable;
  BufferType* output_types; // out
  size_t num_output_types;  // out
};
DLLM_PJRT_STRUCT(ExecutableOutputElementTypesArgs, "PJRT_Executable_OutputElementTypes",
                 num_output_types);

struct ExecutableOutputDimensionsArgs {
  Head head;
  Executable* executable;
  size_t num_outputs;      // out
  const int64_t* dims;     // out
  const size_t* dim_sizes; // out
};
DLLM_PJRT_STRUCT(ExecutableOutputDimensionsArgs, "PJRT_Executable_OutputDimensions", dim_sizes);

struct ExecutableOptimizedProgramArgs {
  Head head;
  Executable* executable;
  Program* program; // out
};
DLLM_PJRT_STRUCT(ExecutableOptimizedProgramArgs, "PJRT_Executable_OptimizedProgram", program);

struct ExecutableSerializeArgs {
  Head head;
  const Executable* executable;
  const char* serialized_bytes;                // out
  size_t serialized_bytes_size;                // out
  SerializedExecutable* serialized_executable; // out
  // out
  void (*serialized_executable_deleter)(SerializedExecutable* exec);
};
DLLM_PJRT_STRUCT(ExecutableSerializeArgs, "PJRT_Executable_Serialize",
                 serialized_executable_deleter);

// Loading of executables on devices, and runs.

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
