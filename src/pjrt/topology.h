#pragma once
// Devices that a plugin compiles for without having one.

#include "pjrt/compile_options.h"
#include "pjrt/compiled.h"
#include "pjrt/device.h"
#include "pjrt/plugin.h"

#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

// Any thread.
class Topology {
public:
  // Fails with the plugin's error: an unknown name is invalid_argument, on plugins without
  // topologies unimplemented.
  Topology(const Plugin& plugin, const std::string& name, const NamedValues& options);

  const Plugin& plugin() const { return *plugin_; }
  std::string platform_name() const; // "tpu" "cuda"
  const std::vector<DeviceFacts>& devices() const { return devices_; }
  // Of one device, for programs; 0: not told.
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
