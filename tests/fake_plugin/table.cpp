// The table and the two symbols the library exports.

#include "calls.h"
#include "control.h"
#include "guard.h"

#include <cstddef>

namespace fake {
namespace {

// Slots a plugin of this minor version has.
int64_t slots_of(int64_t minor) {
  const std::pair<int64_t, int64_t> known[] = {{109, 138}, {106, 136}, {104, 135}, {95, 131},
                                               {88, 126},  {79, 118},  {62, 110},  {57, 101},
                                               {52, 100},  {0, 98}};
  for (const auto& [since, slots] : known)
    if (minor >= since) return slots;
  return 98;
}

abi::Api* make_table(const std::set<std::string>& removed) {
  static abi::ExtensionBase unknown = {sizeof(abi::ExtensionBase), 4711, nullptr};
  static abi::Api api = {};
  api.struct_size = sizeof(abi::Api);
  api.extension_start = &unknown;
  api.version.head.struct_size = sizeof(abi::ApiVersion);
  api.error_destroy = error_destroy;
  api.error_message = error_message;
#define SLOT(slot) api.slot = removed.count(Entry<slot>::name) > 0 ? nullptr : Entry<slot>::call
  SLOT(error_get_code);
  SLOT(plugin_initialize);
  SLOT(plugin_attributes);
  SLOT(event_destroy);
  SLOT(event_is_ready);
  SLOT(event_error);
  SLOT(event_await);
  SLOT(event_on_ready);
  SLOT(client_create);
  SLOT(client_destroy);
  SLOT(client_platform_name);
  SLOT(client_process_index);
  SLOT(client_platform_version);
  SLOT(client_devices);
  SLOT(client_addressable_devices);
  SLOT(client_lookup_device);
  SLOT(client_lookup_addressable_device);
  SLOT(client_addressable_memories);
  SLOT(client_compile);
  SLOT(client_default_device_assignment);
  SLOT(client_topology_description);
  SLOT(client_buffer_from_host_buffer);
  SLOT(client_create_uninitialized_buffer);
  SLOT(client_load);
  SLOT(device_description_id);
  SLOT(device_description_process_index);
  SLOT(device_description_attributes);
  SLOT(device_description_kind);
  SLOT(device_description_debug_string);
  SLOT(device_description_to_string);
  SLOT(device_get_description);
  SLOT(device_is_addressable);
  SLOT(device_local_hardware_id);
  SLOT(device_addressable_memories);
  SLOT(device_default_memory);
  SLOT(device_memory_stats);
  SLOT(memory_id);
  SLOT(memory_kind);
  SLOT(memory_debug_string);
  SLOT(memory_to_string);
  SLOT(compile);
  SLOT(executable_deserialize_and_load);
  SLOT(executable_serialize);
  SLOT(executable_destroy);
  SLOT(executable_name);
  SLOT(executable_num_replicas);
  SLOT(executable_num_partitions);
  SLOT(executable_num_outputs);
  SLOT(executable_size_of_generated_code_in_bytes);
  SLOT(executable_get_cost_analysis);
  SLOT(executable_optimized_program);
  SLOT(executable_output_element_types);
  SLOT(executable_output_dimensions);
  SLOT(executable_fingerprint);
  SLOT(executable_get_compiled_memory_stats);
  SLOT(loaded_executable_destroy);
  SLOT(loaded_executable_get_executable);
  SLOT(loaded_executable_addressable_devices);
  SLOT(loaded_executable_delete);
  SLOT(loaded_executable_is_deleted);
  SLOT(loaded_executable_execute);
  SLOT(buffer_to_host_buffer);
  SLOT(buffer_destroy);
  SLOT(buffer_delete);
  SLOT(buffer_is_deleted);
  SLOT(buffer_element_type);
  SLOT(buffer_dimensions);
  SLOT(buffer_on_device_size_in_bytes);
  SLOT(buffer_device);
  SLOT(buffer_memory);
  SLOT(buffer_ready_event);
  SLOT(buffer_copy_to_device);
  SLOT(buffer_is_on_cpu);
  SLOT(buffer_unsafe_pointer);
  SLOT(topology_description_create);
  SLOT(topology_description_destroy);
  SLOT(topology_description_platform_name);
  SLOT(topology_description_platform_version);
  SLOT(topology_description_get_device_descriptions);
  SLOT(topology_description_serialize);
  SLOT(topology_description_attributes);
  SLOT(topology_description_fingerprint);
#undef SLOT
  return &api;
}

} // namespace

const abi::Api* table() {
  const std::lock_guard lock(State::get().mutex);
  abi::Api* api = make_table(State::get().removed_slots);
  const Settings& settings = State::get().settings;
  if (settings.slots < 0) return nullptr;
  const int64_t slots = settings.slots > 0 ? settings.slots : slots_of(settings.minor);
  api->struct_size = offsetof(abi::Api, error_destroy) + 8 * static_cast<size_t>(slots);
  api->version.major = static_cast<int32_t>(settings.major);
  api->version.minor = static_cast<int32_t>(settings.minor);
  return api;
}

} // namespace fake

extern "C" __attribute__((visibility("default"))) const dllm::pjrt::abi::Api* GetPjrtApi() {
  return fake::table();
}
