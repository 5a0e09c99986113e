#pragma once
// The functions of the table.

#include "pjrt/abi/table.h"

namespace fake {

namespace abi = dllm::pjrt::abi;
using abi::Error;

void error_destroy(abi::ErrorDestroyArgs*);
void error_message(abi::ErrorMessageArgs*);
Error* error_get_code(abi::ErrorGetCodeArgs*);
Error* plugin_initialize(abi::PluginInitializeArgs*);
Error* plugin_attributes(abi::PluginAttributesArgs*);
Error* event_destroy(abi::EventDestroyArgs*);
Error* event_is_ready(abi::EventIsReadyArgs*);
Error* event_error(abi::EventErrorArgs*);
Error* event_await(abi::EventAwaitArgs*);
Error* event_on_ready(abi::EventOnReadyArgs*);

Error* client_create(abi::ClientCreateArgs*);
Error* client_destroy(abi::ClientDestroyArgs*);
Error* client_platform_name(abi::ClientPlatformNameArgs*);
Error* client_process_index(abi::ClientProcessIndexArgs*);
Error* client_platform_version(abi::ClientPlatformVersionArgs*);
Error* client_devices(abi::ClientDevicesArgs*);
Error* client_addressable_devices(abi::ClientAddressableDevicesArgs*);
Error* client_lookup_device(abi::ClientLookupDeviceArgs*);
Error* client_lookup_addressable_device(abi::ClientLookupAddressableDeviceArgs*);
Error* client_addressable_memories(abi::ClientAddressableMemoriesArgs*);
Error* client_default_device_assignment(abi::ClientDefaultDeviceAssignmentArgs*);
Error* client_topology_description(abi::ClientTopologyDescriptionArgs*);

Error* device_description_id(abi::DeviceDescriptionIdArgs*);
Error* device_description_process_index(abi::DeviceDescriptionProcessIndexArgs*);
Error* device_description_attributes(abi::DeviceDescriptionAttributesArgs*);
Error* device_description_kind(abi::DeviceDescriptionKindArgs*);
Error* device_description_debug_string(abi::DeviceDescriptionDebugStringArgs*);
Error* device_description_to_string(abi::DeviceDescriptionToStringArgs*);
Error* device_get_description(abi::DeviceGetDescriptionArgs*);
Error* device_is_addressable(abi::DeviceIsAddressableArgs*);
Error* device_local_hardware_id(abi::DeviceLocalHardwareIdArgs*);
Error* device_addressable_memories(abi::DeviceAddressableMemoriesArgs*);
Error* device_default_memory(abi::DeviceDefaultMemoryArgs*);
Error* device_memory_stats(abi::DeviceMemoryStatsArgs*);
Error* memory_id(abi::MemoryIdArgs*);
Error* memory_kind(abi::MemoryKindArgs*);
Error* memory_debug_string(abi::MemoryDebugStringArgs*);
Error* memory_to_string(abi::MemoryToStringArgs*);

Error* client_compile(abi::ClientCompileArgs*);
Error* client_load(abi::ClientLoadArgs*);
Error* compile(abi::CompileArgs*);
Error* executable_deserialize_and_load(abi::ExecutableDeserializeAndLoadArgs*);
Error* executable_serialize(abi::ExecutableSerializeArgs*);
Error* executable_destroy(abi::ExecutableDestroyArgs*);
Error* loaded_executable_destroy(abi::LoadedExecutableDestroyArgs*);
Error* loaded_executable_get_executable(abi::LoadedExecutableGetExecutableArgs*);
Error* loaded_executable_addressable_devices(abi::LoadedExecutableAddressableDevicesArgs*);
Error* loaded_executable_delete(abi::LoadedExecutableDeleteArgs*);
Error* loaded_executable_is_deleted(abi::LoadedExecutableIsDeletedArgs*);

Error* executable_name(abi::ExecutableNameArgs*);
Error* executable_num_replicas(abi::ExecutableNumReplicasArgs*);
Error* executable_num_partitions(abi::ExecutableNumPartitionsArgs*);
Error* executable_num_outputs(abi::ExecutableNumOutputsArgs*);
Error* executable_size_of_generated_code_in_bytes(abi::ExecutableSizeOfGeneratedCodeInBytesArgs*);
Error* executable_get_cost_analysis(abi::ExecutableGetCostAnalysisArgs*);
Error* executable_optimized_program(abi::ExecutableOptimizedProgramArgs*);
Error* executable_output_element_types(abi::ExecutableOutputElementTypesArgs*);
Error* executable_output_dimensions(abi::ExecutableOutputDimensionsArgs*);
Error* executable_fingerprint(abi::ExecutableFingerprintArgs*);
Error* executable_get_compiled_memory_stats(abi::ExecutableGetCompiledMemoryStatsArgs*);

Error* loaded_executable_execute(abi::LoadedExecutableExecuteArgs*);

Error* client_buffer_from_host_buffer(abi::ClientBufferFromHostBufferArgs*);
Error* client_create_uninitialized_buffer(abi::ClientCreateUninitializedBufferArgs*);
Error* buffer_to_host_buffer(abi::BufferToHostBufferArgs*);
Error* buffer_destroy(abi::BufferDestroyArgs*);
Error* buffer_delete(abi::BufferDeleteArgs*);
Error* buffer_is_deleted(abi::BufferIsDeletedArgs*);
Error* buffer_element_type(abi::BufferElementTypeArgs*);
Error* buffer_dimensions(abi::BufferDimensionsArgs*);
Error* buffer_on_device_size_in_bytes(abi::BufferOnDeviceSizeInBytesArgs*);
Error* buffer_device(abi::BufferDeviceArgs*);
Error* buffer_memory(abi::BufferMemoryArgs*);
Error* buffer_ready_event(abi::BufferReadyEventArgs*);
Error* buffer_copy_to_device(abi::BufferCopyToDeviceArgs*);
Error* buffer_is_on_cpu(abi::BufferIsOnCpuArgs*);
Error* buffer_unsafe_pointer(abi::BufferUnsafePointerArgs*);

Error* topology_description_create(abi::TopologyDescriptionCreateArgs*);
Error* topology_description_destroy(abi::TopologyDescriptionDestroyArgs*);
Error* topology_description_platform_name(abi::TopologyDescriptionPlatformNameArgs*);
Error* topology_description_platform_version(abi::TopologyDescriptionPlatformVersionArgs*);
Error*
topology_description_get_device_descriptions(abi::TopologyDescriptionGetDeviceDescriptionsArgs*);
Error* topology_description_serialize(abi::TopologyDescriptionSerializeArgs*);
Error* topology_description_attributes(abi::TopologyDescriptionAttributesArgs*);
Error* topology_description_fingerprint(abi::TopologyDescriptionFingerprintArgs*);

} // namespace fake
