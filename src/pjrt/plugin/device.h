#pragma once
// Devices: of a client, and those that a plugin compiles for without having one.

#include "pjrt/plugin/compile.h"
#include "pjrt/plugin/plugin.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

// What describes a device, there or not (topologies have descriptions alone).
struct DeviceFacts {
  int64_t id = 0;      // what a device assignment names
  int64_t process = 0; // of the host that owns it
  std::string kind;    // "cpu" "TPU v5 lite" "NVIDIA H100 80GB HBM3"
  NamedValues attributes;
};
DeviceFacts describe_device(const Plugin& plugin, abi::DeviceDescription* description);

struct MemoryUse {
  int64_t used = 0;
  int64_t peak = 0;  // 0: unknown
  int64_t limit = 0; // 0: unknown
};

// Lives as long as its client. Any thread.
class Device {
public:
  Device(const Plugin& plugin, abi::Device* device);

  abi::Device* get() const { return device_; }
  const DeviceFacts& facts() const { return facts_; }
  int64_t id() const { return facts_.id; }
  bool is_addressable() const; // of this process
  std::vector<std::string> memory_kinds() const;
  std::optional<MemoryUse> memory_use() const; // nothing: the plugin does not count (cpu)

private:
  const Plugin* plugin_;
  abi::Device* device_;
  DeviceFacts facts_;
};

// Any thread.
class Topology {
public:
  // Fails with the plugin's error: an unknown name is invalid_argument, on plugins without
  // topologies unimplemented.
  Topology(const Plugin& plugin, const std::string& name, const NamedValues& options);

  const Plugin& plugin() const { return *plugin_; }
  std::string platform_name() const; // "tpu" "cuda"
  const std::vector<DeviceFacts>& devices() const { return devices_; }
  // Of one device, for programs; 0: unknown.
  int64_t memory_limit() const;
  // `program` is StableHLO text. Fails with the compiler's message.
  Compiled compile(std::string_view program, const CompileOptions& options) const;

private:
  const Plugin* plugin_;
  Handle<abi::TopologyDescription, abi::TopologyDescriptionDestroyArgs,
         &abi::TopologyDescriptionDestroyArgs::topology, &abi::Api::topology_description_destroy>
      handle_;
  std::vector<DeviceFacts> devices_;
  NamedValues attributes_;
};

} // namespace dllm::pjrt
