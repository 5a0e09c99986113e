// Devices of a client, and topologies of devices that a plugin compiles for.

#include "pjrt/plugin/client.h"

namespace dllm::pjrt {

DeviceFacts describe_device(const Plugin& plugin, abi::DeviceDescription* description) {
  DeviceFacts facts;
  abi::DeviceDescriptionIdArgs id{};
  id.device_description = description;
  call(plugin.api(), &abi::Api::device_description_id, id);
  facts.id = id.id;

  abi::DeviceDescriptionProcessIndexArgs process{};
  process.device_description = description;
  call(plugin.api(), &abi::Api::device_description_process_index, process);
  facts.process = process.process_index;

  abi::DeviceDescriptionKindArgs kind{};
  kind.device_description = description;
  call(plugin.api(), &abi::Api::device_description_kind, kind);
  facts.kind.assign(kind.device_kind, kind.device_kind_size);

  abi::DeviceDescriptionAttributesArgs attributes{};
  attributes.device_description = description;
  call(plugin.api(), &abi::Api::device_description_attributes, attributes);
  facts.attributes = read_named_values(attributes.attributes, attributes.num_attributes);
  return facts;
}

namespace {

abi::DeviceDescription* description_of(const Plugin& plugin, abi::Device* device) {
  abi::DeviceGetDescriptionArgs args{};
  args.device = device;
  call(plugin.api(), &abi::Api::device_get_description, args);
  return args.device_description;
}

} // namespace

Device::Device(const Plugin& plugin, abi::Device* device)
    : plugin_(&plugin), device_(device),
      facts_(describe_device(plugin, description_of(plugin, device))) {}

bool Device::is_addressable() const {
  abi::DeviceIsAddressableArgs args{};
  args.device = device_;
  call(plugin_->api(), &abi::Api::device_is_addressable, args);
  return args.is_addressable;
}

std::vector<std::string> Device::memory_kinds() const {
  abi::DeviceAddressableMemoriesArgs args{};
  args.device = device_;
  call(plugin_->api(), &abi::Api::device_addressable_memories, args);
  std::vector<std::string> kinds;
  for (size_t i = 0; i < args.num_memories; ++i) {
    abi::MemoryKindArgs kind{};
    kind.memory = args.memories[i];
    call(plugin_->api(), &abi::Api::memory_kind, kind);
    kinds.emplace_back(kind.kind, kind.kind_size);
  }
  return kinds;
}

std::optional<MemoryUse> Device::memory_use() const {
  abi::DeviceMemoryStatsArgs args{};
  args.device = device_;
  try {
    call(plugin_->api(), &abi::Api::device_memory_stats, args);
  } catch (const Error& error) {
    if (error.code() == Code::unimplemented) return std::nullopt;
    throw;
  }
  return MemoryUse{args.bytes_in_use, args.peak_bytes_in_use_is_set ? args.peak_bytes_in_use : 0,
                   args.bytes_limit_is_set ? args.bytes_limit : 0};
}

namespace {

abi::TopologyDescription* create(const Plugin& plugin, const std::string& name,
                                 const NamedValues& options) {
  const std::vector<abi::NamedValue> views = named_value_views(options);
  abi::TopologyDescriptionCreateArgs args{};
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = views.data();
  args.num_options = views.size();
  call(plugin.api(), &abi::Api::topology_description_create, args);
  return args.topology;
}

} // namespace

Topology::Topology(const Plugin& plugin, const std::string& name, const NamedValues& options)
    : plugin_(&plugin), handle_(plugin.api(), create(plugin, name, options)) {
  abi::TopologyDescriptionGetDeviceDescriptionsArgs args{};
  args.topology = handle_.get();
  call(plugin.api(), &abi::Api::topology_description_get_device_descriptions, args);
  for (size_t i = 0; i < args.num_descriptions; ++i) {
    devices_.push_back(describe_device(plugin, args.descriptions[i]));
  }
  if (devices_.empty())
    fail(Code::unavailable, "plugin {} made {} without a device", plugin.path(), name);
  if (!plugin.has(&abi::Api::topology_description_attributes)) return;
  abi::TopologyDescriptionAttributesArgs attributes{};
  attributes.topology = handle_.get();
  call(plugin.api(), &abi::Api::topology_description_attributes, attributes);
  attributes_ = read_named_values(attributes.attributes, attributes.num_attributes);
}

std::string Topology::platform_name() const {
  abi::TopologyDescriptionPlatformNameArgs args{};
  args.topology = handle_.get();
  call(plugin_->api(), &abi::Api::topology_description_platform_name, args);
  return {args.platform_name, args.platform_name_size};
}

int64_t Topology::memory_limit() const {
  constexpr std::string_view kName = "device_memory_bytes_limit";
  for (const NamedValues* values : {&devices_.front().attributes, &attributes_}) {
    if (const auto* limit = find_value<int64_t>(*values, kName)) return *limit;
  }
  return 0;
}

Compiled Topology::compile(std::string_view program, const CompileOptions& options) const {
  const std::string wire = serialize(options);
  auto text = sized<abi::Program>();
  text.code = const_cast<char*>(program.data()); // compilers only read it
  text.code_size = program.size();
  text.format = "mlir";
  text.format_size = 4;
  abi::CompileArgs args{};
  args.topology = handle_.get();
  args.program = &text;
  args.compile_options = wire.data();
  args.compile_options_size = wire.size();
  call(plugin_->api(), &abi::Api::compile, args);
  return Compiled(plugin_->api(), args.executable);
}

} // namespace dllm::pjrt
