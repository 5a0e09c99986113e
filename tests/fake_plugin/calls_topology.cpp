// Hardware that is not there: "v5e:2x3" has six devices, as has any other name before a grid.

#include "calls.h"
#include "guard.h"

namespace dllm::pjrt::abi {

TopologyDescription::TopologyDescription(const std::string& its_name, int64_t count)
    : name(its_name) {
  for (int64_t i = 0; i < count; ++i) {
    devices.emplace_back(static_cast<int>(i));
    pointers.push_back(&devices.back());
  }
}

} // namespace dllm::pjrt::abi

namespace fake {
namespace {

// 0: the name is not understood.
int64_t devices_of(const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos || colon == 0) return 0;
  int64_t count = 1;
  for (const char* at = name.c_str() + colon + 1; *at != 0;) {
    char* end = nullptr;
    count *= std::strtoll(at, &end, 10);
    if (end == at) return 0;
    at = *end == 'x' ? end + 1 : end;
  }
  return count;
}

void delete_serialized(abi::SerializedTopology* serialized) {
  if (State::get().remove("serialized", serialized,
                          "deleter of PJRT_TopologyDescription_Serialize"))
    delete serialized;
}

} // namespace

Error* topology_description_create(abi::TopologyDescriptionCreateArgs* args) {
  const std::string name(args->topology_name, args->topology_name_size);
  for (size_t i = 0; i < args->num_options; ++i) check_struct(args->create_options[i]);
  const int64_t count = devices_of(name);
  if (count <= 0) return invalid("no topology named " + name);
  args->topology = new abi::TopologyDescription(name, count);
  State::get().add("topology", args->topology);
  return nullptr;
}

Error* topology_description_destroy(abi::TopologyDescriptionDestroyArgs* args) {
  if (State::get().remove("topology", args->topology, "PJRT_TopologyDescription_Destroy"))
    delete args->topology;
  return nullptr;
}

Error* topology_description_platform_name(abi::TopologyDescriptionPlatformNameArgs* args) {
  static const std::string name = "fake";
  set_text(name, &args->platform_name, &args->platform_name_size);
  return nullptr;
}

Error* topology_description_platform_version(abi::TopologyDescriptionPlatformVersionArgs* args) {
  static const std::string version = "fake 1.0";
  set_text(version, &args->platform_version, &args->platform_version_size);
  return nullptr;
}

Error* topology_description_get_device_descriptions(
    abi::TopologyDescriptionGetDeviceDescriptionsArgs* args) {
  args->descriptions = args->topology->pointers.data();
  args->num_descriptions = args->topology->pointers.size();
  return nullptr;
}

Error* topology_description_serialize(abi::TopologyDescriptionSerializeArgs* args) {
  auto* serialized = new abi::SerializedTopology{args->topology->name};
  State::get().add("serialized", serialized);
  set_text(serialized->bytes, &args->serialized_bytes, &args->serialized_bytes_size);
  args->serialized_topology = serialized;
  args->serialized_topology_deleter = delete_serialized;
  return nullptr;
}

Error* topology_description_attributes(abi::TopologyDescriptionAttributesArgs* args) {
  static abi::NamedValue limit = [] {
    abi::NamedValue value{};
    value.head.struct_size = abi::kSize<abi::NamedValue>;
    value.name = "device_memory_bytes_limit";
    value.name_size = std::strlen(value.name);
    value.type = abi::NamedValueType::i64;
    value.int64_value = int64_t{1} << 30;
    value.value_size = 1;
    return value;
  }();
  args->attributes = &limit;
  args->num_attributes = 1;
  return nullptr;
}

Error* topology_description_fingerprint(abi::TopologyDescriptionFingerprintArgs* args) {
  args->fingerprint = std::hash<std::string>{}(args->topology->name);
  return nullptr;
}

} // namespace fake
