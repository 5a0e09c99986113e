#pragma once
// A device of a client: what it is, and what its memory holds.

#include "pjrt/plugin.h"

#include <cstdint>
#include <optional>
#include <string>
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
  int64_t peak = 0;  // 0: not told
  int64_t limit = 0; // 0: not told
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

} // namespace dllm::pjrt
