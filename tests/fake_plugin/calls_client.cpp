// Clients.

#include "calls.h"
#include "guard.h"

namespace fake {
namespace {

bool lives(abi::Client* client, const char* call) {
  return State::get().check("client", client, call);
}

Settings settings_now() {
  const std::lock_guard lock(State::get().mutex);
  return State::get().settings;
}

// Like the newest plugins: unknown names and wrong types are refused.
Error* read_option(const abi::NamedValue& option, bool joins, Nodes* nodes) {
  check_struct(option);
  const std::string name(option.name, option.name_size);
  int64_t* value = name == "cpu_device_count"     ? &nodes->devices
                   : name == "node_id" && joins   ? &nodes->own
                   : name == "num_nodes" && joins ? &nodes->count
                                                  : nullptr;
  if (value == nullptr)
    return invalid("Unexpected option name passed to PJRT_Client_Create: " + name);
  if (option.type != abi::NamedValueType::i64) {
    return invalid("Option passed to PJRT_Client_Create with name " + name + " has type index " +
                   std::to_string(static_cast<int>(option.type)) + " but expected type index is 1");
  }
  *value = option.int64_value;
  return nullptr;
}

} // namespace

Error* client_create(abi::ClientCreateArgs* args) {
  const Settings settings = settings_now();
  Nodes nodes;
  nodes.devices = settings.devices;
  for (size_t i = 0; i < args->num_options; ++i) {
    if (Error* error = read_option(args->create_options[i], settings.joins != 0, &nodes))
      return error;
  }
  if (Error* error = nodes.join(*args, settings)) return error;
  std::string platform;
  {
    const std::lock_guard lock(State::get().mutex);
    platform = State::get().platform;
  }
  args->client = new abi::Client(platform, std::move(nodes));
  State::get().add("client", args->client);
  return nullptr;
}

Error* client_destroy(abi::ClientDestroyArgs* args) {
  State& state = State::get();
  if (!state.remove("client", args->client, "PJRT_Client_Destroy")) return nullptr;
  // Clients are counted first: after the last one no thread makes or frees what is counted then.
  const bool is_last = state.count_live("client") == 0;
  for (const char* kind : {"buffer", "loaded executable"}) {
    const auto live = is_last ? state.count_live(kind) : 0;
    if (live > 0) {
      state.violation("PJRT_Client_Destroy: " + std::to_string(live) + " " + kind +
                      " outlive the client");
      return nullptr; // kept, so that nothing points into freed memory
    }
  }
  const std::lock_guard lock(state.mutex);
  state.graves.emplace_back(args->client); // transfers under way still count on its devices
  return nullptr;
}

Error* client_platform_name(abi::ClientPlatformNameArgs* args) {
  if (!lives(args->client, "PJRT_Client_PlatformName")) return invalid("no client");
  set_text(args->client->platform, &args->platform_name, &args->platform_name_size);
  return nullptr;
}

Error* client_process_index(abi::ClientProcessIndexArgs* args) {
  args->process_index = static_cast<int>(args->client->nodes.own);
  return nullptr;
}

Error* client_platform_version(abi::ClientPlatformVersionArgs* args) {
  if (!lives(args->client, "PJRT_Client_PlatformVersion")) return invalid("no client");
  set_text(args->client->version, &args->platform_version, &args->platform_version_size);
  return nullptr;
}

Error* client_devices(abi::ClientDevicesArgs* args) {
  if (!lives(args->client, "PJRT_Client_Devices")) return invalid("no client");
  args->devices = args->client->pointers.data();
  args->num_devices = args->client->pointers.size();
  return nullptr;
}

Error* client_addressable_devices(abi::ClientAddressableDevicesArgs* args) {
  if (!lives(args->client, "PJRT_Client_AddressableDevices")) return invalid("no client");
  args->addressable_devices = args->client->local.data();
  args->num_addressable_devices = args->client->local.size();
  return nullptr;
}

Error* client_lookup_device(abi::ClientLookupDeviceArgs* args) {
  if (!lives(args->client, "PJRT_Client_LookupDevice")) return invalid("no client");
  for (abi::Device& device : args->client->devices)
    if (device.description.id == args->id) args->device = &device;
  return args->device != nullptr ? nullptr : invalid("no device of this id");
}

Error* client_lookup_addressable_device(abi::ClientLookupAddressableDeviceArgs* args) {
  if (!lives(args->client, "PJRT_Client_LookupAddressableDevice")) return invalid("no client");
  for (abi::Device& device : args->client->devices)
    if (device.description.id == args->local_hardware_id) args->addressable_device = &device;
  return args->addressable_device != nullptr ? nullptr : invalid("no device of this id");
}

Error* client_addressable_memories(abi::ClientAddressableMemoriesArgs* args) {
  if (!lives(args->client, "PJRT_Client_AddressableMemories")) return invalid("no client");
  args->addressable_memories = args->client->memories.data();
  args->num_addressable_memories = args->client->memories.size();
  return nullptr;
}

Error* client_default_device_assignment(abi::ClientDefaultDeviceAssignmentArgs* args) {
  const size_t wanted = static_cast<size_t>(args->num_replicas * args->num_partitions);
  if (wanted > args->default_assignment_size)
    return invalid("default_assignment_size is too small");
  for (size_t i = 0; i < wanted; ++i) args->default_assignment[i] = static_cast<int>(i);
  return nullptr;
}

Error* client_topology_description(abi::ClientTopologyDescriptionArgs* args) {
  if (!lives(args->client, "PJRT_Client_TopologyDescription")) return invalid("no client");
  args->topology = &args->client->topology;
  return nullptr;
}

} // namespace fake

namespace dllm::pjrt::abi {

Client::Client(const std::string& its_platform, fake::Nodes its_nodes)
    : platform(its_platform), nodes(std::move(its_nodes)),
      topology("fake:" + std::to_string(nodes.all()), nodes.all()) {
  for (int64_t i = 0; i < nodes.all(); ++i) {
    const int64_t process = nodes.node_of(i);
    devices.emplace_back(static_cast<int>(i), static_cast<int>(process));
    pointers.push_back(&devices.back());
    if (process != nodes.own) continue;
    local.push_back(&devices.back());
    memories.push_back(&devices.back().memory);
  }
}

} // namespace dllm::pjrt::abi
