#pragma once
// Api is the table of functions of a plugin. Slot k is at offset 40 + 8k. New versions only append
// slots, so an older plugin has a shorter table (struct_size) and a newer one a longer table. Slots
// that this library does not call have the type Unused.

#include "pjrt/abi/buffer.h"
#include "pjrt/abi/client.h"
#include "pjrt/abi/compile.h"
#include "pjrt/abi/device.h"

namespace dllm::pjrt::abi {

template <class Args> using Call = Error* (*)(Args*);

struct Api {
  size_t struct_size;
  ExtensionBase* extension_start;
  ApiVersion version;
  /* 0 */ void (*error_destroy)(ErrorDestroyArgs*);
  /* 1 */ void (*error_message)(ErrorMessageArgs*);
  /* 2 */ Call<ErrorGetCodeArgs> error_get_code;
  /* 3 */ Call<PluginInitializeArgs> plugin_initialize;
  /* 4 */ Call<PluginAttributesArgs> plugin_attributes;
  /* 5 */ Call<EventDestroyArgs> event_destroy;
  /* 6 */ Call<EventIsReadyArgs> event_is_ready;
  /* 7 */ Call<EventErrorArgs> event_error;
  /* 8 */ Call<EventAwaitArgs> event_await;
  /* 9 */ Call<EventOnReadyArgs> event_on_ready;
  /* 10 */ Call<ClientCreateArgs> client_create;
  /* 11 */ Call<ClientDestroyArgs> client_destroy;
  /* 12 */ Call<ClientPlatformNameArgs> client_platform_name;
  /* 13 */ Call<ClientProcessIndexArgs> client_process_index;
  /* 14 */ Call<ClientPlatformVersionArgs> client_platform_version;
  /* 15 */ Call<ClientDevicesArgs> client_devices;
  /* 16 */ Call<ClientAddressableDevicesArgs> client_addressable_devices;
  /* 17 */ Call<ClientLookupDeviceArgs> client_lookup_device;
  /* 18 */ Call<ClientLookupAddressableDeviceArgs> client_lookup_addressable_device;
  /* 19 */ Call<ClientAddressableMemoriesArgs> client_addressable_memories;
  /* 20 */ Call<ClientCompileArgs> client_compile;
  /* 21 */ Call<ClientDefaultDeviceAssignmentArgs> client_default_device_assignment;
  /* 22 */ Call<ClientBufferFromHostBufferArgs> client_buffer_from_host_buffer;
  /* 23 */ Call<DeviceDescriptionIdArgs> device_description_id;
  /* 24 */ Call<DeviceDescriptionProcessIndexArgs> device_description_process_index;
  /* 25 */ Call<DeviceDescriptionAttributesArgs> device_description_attributes;
  /* 26 */ Call<DeviceDescriptionKindArgs> device_description_kind;
  /* 27 */ Call<DeviceDescriptionDebugStringArgs> device_description_debug_string;
  /* 28 */ Call<DeviceDescriptionToStringArgs> device_description_to_string;
  /* 29 */ Call<DeviceGetDescriptionArgs> device_get_description;
  /* 30 */ Call<DeviceIsAddressableArgs> device_is_addressable;
  /* 31 */ Call<DeviceLocalHardwareIdArgs> device_local_hardware_id;
  /* 32 */ Call<DeviceAddressableMemoriesArgs> device_addressable_memories;
  /* 33 */ Call<DeviceDefaultMemoryArgs> device_default_memory;
  /* 34 */ Call<DeviceMemoryStatsArgs> device_memory_stats;
  /* 35 */ Call<MemoryIdArgs> memory_id;
  /* 36 */ Call<MemoryKindArgs> memory_kind;
  /* 37 */ Call<MemoryDebugStringArgs> memory_debug_string;
  /* 38 */ Call<MemoryToStringArgs> memory_to_string;
  /* 39 */ Call<MemoryAddressableByDevicesArgs> memory_addressable_by_devices;
  /* 40 */ Call<ExecutableDestroyArgs> executable_destroy;
  /* 41 */ Call<ExecutableNameArgs> executable_name;
  /* 42 */ Call<ExecutableNumReplicasArgs> executable_num_replicas;
  /* 43 */ Call<ExecutableNumPartitionsArgs> executable_num_partitions;
  /* 44 */ Call<ExecutableNumOutputsArgs> executable_num_outputs;
  /* 45 */ Call<ExecutableSizeOfGeneratedCodeInBytesArgs>
      executable_size_of_generated_code_in_bytes;
  /* 46 */ Call<ExecutableGetCostAnalysisArgs> executable_get_cost_analysis;
  /* 47 */ Unused executable_output_memory_kinds;
  /* 48 */ Call<ExecutableOptimizedProgramArgs> executable_optimized_program;
  /* 49 */ Call<ExecutableSerializeArgs> executable_serialize;
  /* 50 */ Call<LoadedExecutableDestroyArgs> loaded_executable_destroy;
  /* 51 */ Call<LoadedExecutableGetExecutableArgs> loaded_executable_get_executable;
  /* 52 */ Call<LoadedExecutableAddressableDevicesArgs> loaded_executable_addressable_devices;
  /* 53 */ Call<LoadedExecutableDeleteArgs> loaded_executable_delete;
  /* 54 */ Call<LoadedExecutableIsDeletedArgs> loaded_executable_is_deleted;
  /* 55 */ Call<LoadedExecutableExecuteArgs> loaded_executable_execute;
  /* 56 */ Call<ExecutableDeserializeAndLoadArgs> executable_deserialize_and_load;
  /* 57 */ Call<LoadedExecutableFingerprintArgs> loaded_executable_fingerprint;
  /* 58 */ Call<BufferDestroyArgs> buffer_destroy;
  /* 59 */ Call<BufferElementTypeArgs> buffer_element_type;
  /* 60 */ Call<BufferDimensionsArgs> buffer_dimensions;
  /* 61 */ Unused buffer_unpadded_dimensions;
  /* 62 */ Unused buffer_dynamic_dimension_indices;
  /* 63 */ Unused buffer_get_memory_layout;
  /* 64 */ Call<BufferOnDeviceSizeInBytesArgs> buffer_on_device_size_in_bytes;
  /* 65 */ Call<BufferDeviceArgs> buffer_device;
  /* 66 */ Call<BufferMemoryArgs> buffer_memory;
  /* 67 */ Call<BufferDeleteArgs> buffer_delete;
  /* 68 */ Call<BufferIsDeletedArgs> buffer_is_deleted;
  /* 69 */ Call<BufferCopyToDeviceArgs> buffer_copy_to_device;
  /* 70 */ Call<BufferToHostBufferArgs> buffer_to_host_buffer;
  /* 71 */ Call<BufferIsOnCpuArgs> buffer_is_on_cpu;
  /* 72 */ Call<BufferReadyEventArgs> buffer_ready_event;
  /* 73 */ Call<BufferUnsafePointerArgs> buffer_unsafe_pointer;
  /* 74 */ Unused buffer_increase_external_reference_count;
  /* 75 */ Unused buffer_decrease_external_reference_count;
  /* 76 */ Unused buffer_opaque_device_memory_data_pointer;
  /* 77 */ Unused copy_to_device_stream_destroy;
  /* 78 */ Unused copy_to_device_stream_add_chunk;
  /* 79 */ Unused copy_to_device_stream_total_bytes;
  /* 80 */ Unused copy_to_device_stream_granule_size;
  /* 81 */ Unused copy_to_device_stream_current_bytes;
  /* 82 */ Call<TopologyDescriptionCreateArgs> topology_description_create;
  /* 83 */ Call<TopologyDescriptionDestroyArgs> topology_description_destroy;
  /* 84 */ Call<TopologyDescriptionPlatformNameArgs> topology_description_platform_name;
  /* 85 */ Call<TopologyDescriptionPlatformVersionArgs> topology_description_platform_version;
  /* 86 */ Call<TopologyDescriptionGetDeviceDescriptionsArgs>
      topology_description_get_device_descriptions;
  /* 87 */ Call<TopologyDescriptionSerializeArgs> topology_description_serialize;
  /* 88 */ Call<TopologyDescriptionAttributesArgs> topology_description_attributes;
  /* 89 */ Call<CompileArgs> compile;
  /* 90, since 0.29 */ Call<ExecutableOutputElementTypesArgs> executable_output_element_types;
  /* 91, since 0.29 */ Call<ExecutableOutputDimensionsArgs> executable_output_dimensions;
  /* 92, since 0.32 */ Call<BufferCopyToMemoryArgs> buffer_copy_to_memory;
  /* 93, since 0.33 */ Unused client_create_view_of_device_buffer;
  /* 94, since 0.35 */ Call<ExecutableFingerprintArgs> executable_fingerprint;
  /* 95, since 0.36 */ Call<ClientTopologyDescriptionArgs> client_topology_description;
  /* 96, since 0.40 */ Call<ExecutableGetCompiledMemoryStatsArgs>
      executable_get_compiled_memory_stats;
  /* 97, since 0.48 */ Unused memory_kind_id;
  /* 98, since 0.52 */ Unused execute_context_create;
  /* 99, since 0.52 */ Unused execute_context_destroy;
  /* 100, since 0.57 */ Unused buffer_copy_raw_to_host;
  /* 101, since 0.60 */ Unused async_host_to_device_transfer_manager_destroy;
  /* 102, since 0.60 */ Unused async_host_to_device_transfer_manager_transfer_data;
  /* 103, since 0.60 */ Unused client_create_buffers_for_async_host_to_device;
  /* 104, since 0.60 */ Unused async_host_to_device_transfer_manager_retrieve_buffer;
  /* 105, since 0.60 */ Unused async_host_to_device_transfer_manager_device;
  /* 106, since 0.60 */ Unused async_host_to_device_transfer_manager_buffer_count;
  /* 107, since 0.62 */ Unused async_host_to_device_transfer_manager_buffer_size;
  /* 108, since 0.62 */ Unused async_host_to_device_transfer_manager_set_buffer_error;
  /* 109, since 0.62 */ Unused async_host_to_device_transfer_manager_add_metadata;
  /* 110, since 0.67 */ Unused client_dma_map;
  /* 111, since 0.67 */ Unused client_dma_unmap;
  /* 112, since 0.69 */ Call<ClientCreateUninitializedBufferArgs>
      client_create_uninitialized_buffer;
  /* 113, since 0.73 */ Unused client_update_global_process_info;
  /* 114, since 0.75 */ Call<TopologyDescriptionDeserializeArgs> topology_description_deserialize;
  /* 115, since 0.77 */ Unused client_create_alias_buffer;
  /* 116, since 0.77 */ Unused client_fulfill_alias_buffer;
  /* 117, since 0.79 */ Unused loaded_executable_get_device_assignment;
  /* 118, since 0.82 */ Unused client_create_error_buffer;
  /* 119, since 0.83 */ Unused async_host_to_device_transfer_manager_transfer_literal;
  /* 120, since 0.84 */ Unused buffer_copy_raw_to_host_future;
  /* 121, since 0.85 */ Unused device_poison_execution;
  /* 122, since 0.86 */ Unused device_create_async_tracking_event;
  /* 123, since 0.86 */ Unused async_tracking_event_destroy;
  /* 124, since 0.87 */ Unused executable_get_compile_options;
  /* 125, since 0.88 */ Unused buffer_donate_with_control_dependency;
  /* 126, since 0.89 */ Call<EventCreateArgs> event_create;
  /* 127, since 0.89 */ Call<EventSetArgs> event_set;
  /* 128, since 0.92 */ Unused device_get_attributes;
  /* 129, since 0.95 */ Call<ClientLoadArgs> client_load;
  /* 130, since 0.96 */ Unused loaded_executable_addressable_device_logical_ids;
  /* 131, since 0.98 */ Unused buffer_bitcast;
  /* 132, since 0.99 */ Unused error_for_each_payload;
  /* 133, since 0.101 */ Call<TopologyDescriptionFingerprintArgs> topology_description_fingerprint;
  /* 134, since 0.102 */ Unused executable_parameter_memory_kinds;
  /* 135, since 0.106 */ Call<DeviceClearMemoryStatsArgs> device_clear_memory_stats;
  /* 136, since 0.109 */ Unused topology_description_make_canonical_shape_for_memory_space;
  /* 137, since 0.110 */ Unused topology_description_get_memory_space_kind_ids;
};

// A plugin exports one function, which returns the table.
using GetPjrtApi = const Api* (*)();
inline constexpr const char* kEntrySymbol = "GetPjrtApi";

} // namespace dllm::pjrt::abi
