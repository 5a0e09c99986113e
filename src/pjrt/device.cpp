#include "pjrt/device.h"

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

} // namespace dllm::pjrt
