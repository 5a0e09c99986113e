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
  void (*error_destroy)(ErrorDestroyArgs*);                                                  // 0
  void (*error_message)(ErrorMessageArgs*);                                                  // 1
  Call<ErrorGetCodeArgs> error_get_code;                                                     // 2
  Call<PluginInitializeArgs> plugin_initialize;                                              // 3
  Call<PluginAttributesArgs> plugin_attributes;                                              // 4
  Call<EventDestroyArgs> event_destroy;                                                      // 5
  Call<EventIsReadyArgs> event_is_ready;                                                     // 6
  Call<EventErrorArgs> event_error;                                                          // 7
  Call<EventAwaitArgs> event_await;                                                          // 8
  Call<EventOnReadyArgs> event_on_ready;                                                     // 9
  Call<ClientCreateArgs> client_create;                                                      // 10
  Call<ClientDestroyArgs> client_destroy;                                                    // 11
  Call<ClientPlatformNameArgs> client_platform_name;                                         // 12
  Call<ClientProcessIndexArgs> client_process_index;                                         // 13
  Call<ClientPlatformVersionArgs> client_platform_version;                                   // 14
  Call<ClientDevicesArgs> client_devices;                                                    // 15
  Call<ClientAddressableDevicesArgs> client_addressable_devices;                             // 16
  Call<ClientLookupDeviceArgs> client_lookup_device;                                         // 17
  Call<ClientLookupAddressableDeviceArgs> client_lookup_addressable_device;                  // 18
  Call<ClientAddressableMemoriesArgs> client_addressable_memories;                           // 19
  Call<ClientCompileArgs> client_compile;                                                    // 20
  Call<ClientDefaultDeviceAssignmentArgs> client_default_device_assignment;                  // 21
  Call<ClientBufferFromHostBufferArgs> client_buffer_from_host_buffer;                       // 22
  Call<DeviceDescriptionIdArgs> device_description_id;                                       // 23
  Call<DeviceDescriptionProcessIndexArgs> device_description_process_index;                  // 24
  Call<DeviceDescriptionAttributesArgs> device_description_attributes;                       // 25
  Call<DeviceDescriptionKindArgs> device_description_kind;                                   // 26
  Call<DeviceDescriptionDebugStringArgs> device_description_debug_string;                    // 27
  Call<DeviceDescriptionToStringArgs> device_description_to_string;                          // 28
  Call<DeviceGetDescriptionArgs> device_get_description;                                     // 29
  Call<DeviceIsAddressableArgs> device_is_addressable;                                       // 30
  Call<DeviceLocalHardwareIdArgs> device_local_hardware_id;                                  // 31
  Call<DeviceAddressableMemoriesArgs> device_addressable_memories;                           // 32
  Call<DeviceDefaultMemoryArgs> device_default_memory;                                       // 33
  Call<DeviceMemoryStatsArgs> device_memory_stats;                                           // 34
  Call<MemoryIdArgs> memory_id;                                                              // 35
  Call<MemoryKindArgs> memory_kind;                                                          // 36
  Call<MemoryDebugStringArgs> memory_debug_string;                                           // 37
  Call<MemoryToStringArgs> memory_to_string;                                                 // 38
  Call<MemoryAddressableByDevicesArgs> memory_addressable_by_devices;                        // 39
  Call<ExecutableDestroyArgs> executable_destroy;                                            // 40
  Call<ExecutableNameArgs> executable_name;                                                  // 41
  Call<ExecutableNumReplicasArgs> executable_num_replicas;                                   // 42
  Call<ExecutableNumPartitionsArgs> executable_num_partitions;                               // 43
  Call<ExecutableNumOutputsArgs> executable_num_outputs;                                     // 44
  Call<ExecutableSizeOfGeneratedCodeInBytesArgs> executable_size_of_generated_code_in_bytes; // 45
  Call<ExecutableGetCostAnalysisArgs> executable_get_cost_analysis;                          // 46
  Unused executable_output_memory_kinds;                                                     // 47
  Call<ExecutableOptimizedProgramArgs> executable_optimized_program;                         // 48
  Call<ExecutableSerializeArgs> executable_serialize;                                        // 49
  Call<LoadedExecutableDestroyArgs> loaded_executable_destroy;                               // 50
  Call<LoadedExecutableGetExecutableArgs> loaded_executable_get_executable;                  // 51
  Call<LoadedExecutableAddressableDevicesArgs> loaded_executable_addressable_devices;        // 52
  Call<LoadedExecutableDeleteArgs> loaded_executable_delete;                                 // 53
  Call<LoadedExecutableIsDeletedArgs> loaded_executable_is_deleted;                          // 54
  Call<LoadedExecutableExecuteArgs> loaded_executable_execute;                               // 55
  Call<ExecutableDeserializeAndLoadArgs> executable_deserialize_and_load;                    // 56
  Call<LoadedExecutableFingerprintArgs> loaded_executable_fingerprint;                       // 57
  Call<BufferDestroyArgs> buffer_destroy;                                                    // 58
  Call<BufferElementTypeArgs> buffer_element_type;                                           // 59
  Call<BufferDimensionsArgs> buffer_dimensions;                                              // 60
  Unused buffer_unpadded_dimensions;                                                         // 61
  Unused buffer_dynamic_dimension_indices;                                                   // 62
  Unused buffer_get_memory_layout;                                                           // 63
  Call<BufferOnDeviceSizeInBytesArgs> buffer_on_device_size_in_bytes;                        // 64
  Call<BufferDeviceArgs> buffer_device;                                                      // 65
  Call<BufferMemoryArgs> buffer_memory;                                                      // 66
  Call<BufferDeleteArgs> buffer_delete;                                                      // 67
  Call<BufferIsDeletedArgs> buffer_is_deleted;                                               // 68
  Call<BufferCopyToDeviceArgs> buffer_copy_to_device;                                        // 69
  Call<BufferToHostBufferArgs> buffer_to_host_buffer;                                        // 70
  Call<BufferIsOnCpuArgs> buffer_is_on_cpu;                                                  // 71
  Call<BufferReadyEventArgs> buffer_ready_event;                                             // 72
  Call<BufferUnsafePointerArgs> buffer_unsafe_pointer;                                       // 73
  Unused buffer_increase_external_reference_count;                                           // 74
  Unused buffer_decrease_external_reference_count;                                           // 75
  Unused buffer_opaque_device_memory_data_pointer;                                           // 76
  Unused copy_to_device_stream_destroy;                                                      // 77
  Unused copy_to_device_stream_add_chunk;                                                    // 78
  Unused copy_to_device_stream_total_bytes;                                                  // 79
  Unused copy_to_device_stream_granule_size;                                                 // 80
  Unused copy_to_device_stream_current_bytes;                                                // 81
  Call<TopologyDescriptionCreateArgs> topology_description_create;                           // 82
  Call<TopologyDescriptionDestroyArgs> topology_description_destroy;                         // 83
  Call<TopologyDescriptionPlatformNameArgs> topology_description_platform_name;              // 84
  Call<TopologyDescriptionPlatformVersionArgs> topology_description_platform_version;        // 85
  Call<TopologyDescriptionGetDeviceDescriptionsArgs>
      topology_description_get_device_descriptions;                                // 86
  Call<TopologyDescriptionSerializeArgs> topology_description_serialize;           // 87
  Call<TopologyDescriptionAttributesArgs> topology_description_attributes;         // 88
  Call<CompileArgs> compile;                                                       // 89
  Call<ExecutableOutputElementTypesArgs> executable_output_element_types;          // 90, since 0.29
  Call<ExecutableOutputDimensionsArgs> executable_output_dimensions;               // 91, since 0.29
  Call<BufferCopyToMemoryArgs> buffer_copy_to_memory;                              // 92, since 0.32
  Unused client_create_view_of_device_buffer;                                      // 93, since 0.33
  Call<ExecutableFingerprintArgs> executable_fingerprint;                          // 94, since 0.35
  Call<ClientTopologyDescriptionArgs> client_topology_description;                 // 95, since 0.36
  Call<ExecutableGetCompiledMemoryStatsArgs> executable_get_compiled_memory_stats; // 96, since 0.40
  Unused memory_kind_id;                                                           // 97, since 0.48
  Unused execute_context_create;                                                   // 98, since 0.52
  Unused execute_context_destroy;                                                  // 99, since 0.52
  Unused buffer_copy_raw_to_host;                                               // 100, since 0.57
  Unused async_host_to_device_transfer_manager_destroy;                         // 101, since 0.60
  Unused async_host_to_device_transfer_manager_transfer_data;                   // 102, since 0.60
  Unused client_create_buffers_for_async_host_to_device;                        // 103, since 0.60
  Unused async_host_to_device_transfer_manager_retrieve_buffer;                 // 104, since 0.60
  Unused async_host_to_device_transfer_manager_device;                          // 105, since 0.60
  Unused async_host_to_device_transfer_manager_buffer_count;                    // 106, since 0.60
  Unused async_host_to_device_transfer_manager_buffer_size;                     // 107, since 0.62
  Unused async_host_to_device_transfer_manager_set_buffer_error;                // 108, since 0.62
  Unused async_host_to_device_transfer_manager_add_metadata;                    // 109, since 0.62
  Unused client_dma_map;                                                        // 110, since 0.67
  Unused client_dma_unmap;                                                      // 111, since 0.67
  Call<ClientCreateUninitializedBufferArgs> client_create_uninitialized_buffer; // 112, since 0.69
  Unused client_update_global_process_info;                                     // 113, since 0.73
  Call<TopologyDescriptionDeserializeArgs> topology_description_deserialize;    // 114, since 0.75
  Unused client_create_alias_buffer;                                            // 115, since 0.77
  Unused client_fulfill_alias_buffer;                                           // 116, since 0.77
  Unused loaded_executable_get_device_assignment;                               // 117, since 0.79
  Unused client_create_error_buffer;                                            // 118, since 0.82
  Unused async_host_to_device_transfer_manager_transfer_literal;                // 119, since 0.83
  Unused buffer_copy_raw_to_host_future;                                        // 120, since 0.84
  Unused device_poison_execution;                                               // 121, since 0.85
  Unused device_create_async_tracking_event;                                    // 122, since 0.86
  Unused async_tracking_event_destroy;                                          // 123, since 0.86
  Unused executable_get_compile_options;                                        // 124, since 0.87
  Unused buffer_donate_with_control_dependency;                                 // 125, since 0.88
  Call<EventCreateArgs> event_create;                                           // 126, since 0.89
  Call<EventSetArgs> event_set;                                                 // 127, since 0.89
  Unused device_get_attributes;                                                 // 128, since 0.92
  Call<ClientLoadArgs> client_load;                                             // 129, since 0.95
  Unused loaded_executable_addressable_device_logical_ids;                      // 130, since 0.96
  Unused buffer_bitcast;                                                        // 131, since 0.98
  Unused error_for_each_payload;                                                // 132, since 0.99
  Call<TopologyDescriptionFingerprintArgs> topology_description_fingerprint;    // 133, since 0.101
  Unused executable_parameter_memory_kinds;                                     // 134, since 0.102
  Call<DeviceClearMemoryStatsArgs> device_clear_memory_stats;                   // 135, since 0.106
  Unused topology_description_make_canonical_shape_for_memory_space;            // 136, since 0.109
  Unused topology_description_get_memory_space_kind_ids;                        // 137, since 0.110
};

// A plugin exports one function, which returns the table.
using GetPjrtApi = const Api* (*)();
inline constexpr const char* kEntrySymbol = "GetPjrtApi";

} // namespace dllm::pjrt::abi
