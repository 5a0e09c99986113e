#include "pjrt/topology.h"

namespace dllm::pjrt {
namespace {

abi::TopologyDescription* create(const Plugin& plugin, const std::string& name,
                                 const NamedValues& options) {
  const std::vector<abi::NamedValue> lent = lend_named_values(options);
  abi::TopologyDescriptionCreateArgs args{};
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = lent.data();
  args.num_options = lent.size();
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
  abi::TopologyDescriptionAttributesArgs told{};
  told.topology = handle_.get();
  call(plugin.api(), &abi::Api::topology_description_attributes, told);
  attributes_ = read_named_values(told.attributes, told.num_attributes);
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
