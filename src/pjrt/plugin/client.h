#pragma once
// A plugin's client, its devices, and the objects on them: arrays and programs.

#include "comm/key_value_store.h"
#include "pjrt/plugin/compile.h"
#include "pjrt/plugin/plugin.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

// Devices: of a client, and those that a plugin compiles for without having one.

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

class Client;

// Move-only; keeps its client alive. Reads may run together; not while it is donated.
class Array {
public:
  Array() = default;
  Array(std::shared_ptr<const Client> client, abi::Buffer* buffer);
  Array(Array&&) noexcept = default;
  Array& operator=(Array&& other) noexcept;
  ~Array() = default; // handle_ goes before client_

  explicit operator bool() const { return static_cast<bool>(handle_); }
  abi::Buffer* get() const { return handle_.get(); }

  DType dtype() const;
  Shape shape() const;
  int64_t device_bytes() const; // padding of the device included
  abi::Device* device() const;
  bool is_deleted() const; // donated, or deleted by hand
  EventHandle ready() const;
  // The address on the device; for tests and zero-copy checks.
  uintptr_t unsafe_pointer() const;
  // Starts a copy, row-major, to `into`, which must live until the event has happened. REQUIRES:
  // `into` has the type and shape of the buffer.
  EventHandle copy_to(Tensor& into) const;
  Tensor read() const; // waits

private:
  std::shared_ptr<const Client> client_;
  Handle<abi::Buffer, abi::BufferDestroyArgs, &abi::BufferDestroyArgs::buffer,
         &abi::Api::buffer_destroy>
      handle_;
};

// Keeps the storage of a tensor alive until an event has happened. When the plugin cannot call
// back, waits and fails. REQUIRES: the event happens by itself.
void hold_until(const EventHandle& event, const Tensor& tensor);

class Client;

// Any thread.
class Executable {
public:
  Executable(std::shared_ptr<const Client> client, abi::LoadedExecutable* executable);

  const Compiled& compiled() const { return compiled_; }
  // Position d runs replica d (those of this process).
  const std::vector<abi::Device*>& devices() const { return devices_; }

  // arguments[d][a] for device d. Starts the work and returns; later failures are reported by the
  // ready events of the results. Arguments that the program donates are used up, except those of
  // the positions in `keep` (on all devices). Types and shapes are the caller's to check: the
  // plugin compares sizes alone. The result is [d][output].
  std::vector<std::vector<Array>> run(std::span<const std::vector<const Array*>> arguments,
                                      std::span<const int64_t> keep = {}) const;

private:
  std::shared_ptr<const Client> client_;
  Handle<abi::LoadedExecutable, abi::LoadedExecutableDestroyArgs,
         &abi::LoadedExecutableDestroyArgs::executable, &abi::Api::loaded_executable_destroy>
      handle_;
  Compiled compiled_;
  std::vector<abi::Device*> devices_;
  size_t output_count_ = 0;
};

class Executable;

// Shared by everything made from it and destroyed last. Any thread.
class Client : public std::enable_shared_from_this<Client> {
public:
  // Fails with the plugin's error; a client without a device of this process fails with
  // unavailable. store: the key-value store of several processes, for as long as the client lives.
  static std::shared_ptr<const Client> create(const Plugin& plugin, const NamedValues& options,
                                              std::shared_ptr<comm::KeyValueStore> store = nullptr);

  const Plugin& plugin() const { return *plugin_; }
  abi::Client* get() const { return handle_.get(); }
  const std::string& platform_name() const { return platform_name_; } // "cpu" "tpu" "cuda"
  const std::string& platform_version() const { return platform_version_; }
  const std::vector<Device>& devices() const { return devices_; } // of this process
  // Ids of the devices of all processes.
  const std::vector<int64_t>& all_ids() const { return all_ids_; }
  // The position of a device in devices(); -1: not there.
  int64_t index_of(const abi::Device* device) const;

  // `program` is StableHLO text. Fails with the compiler's message.
  std::shared_ptr<const Executable> compile(std::string_view program,
                                            const CompileOptions& options) const;
  // Bytes of Executable::serialize of the same plugin.
  std::shared_ptr<const Executable> load(std::string_view serialized) const;

  // `use`: until when the plugin reads the tensor's storage, which must not change before:
  // during the call, until it is copied, or, shared (CPUs, 64-byte aligned), for as long as the
  // buffer lives.
  Array upload(const Tensor& tensor, const Device& device,
               abi::HostBufferSemantics use = abi::HostBufferSemantics::during_call) const;

private:
  Client(const Plugin& plugin, abi::Client* client, std::shared_ptr<comm::KeyValueStore> store);

  const Plugin* plugin_;
  std::shared_ptr<comm::KeyValueStore> store_; // goes after the client
  Handle<abi::Client, abi::ClientDestroyArgs, &abi::ClientDestroyArgs::client,
         &abi::Api::client_destroy>
      handle_;
  std::string platform_name_, platform_version_;
  std::vector<Device> devices_;
  std::vector<int64_t> all_ids_;
};

// For CompileOptions::flags. platform: Client::platform_name(). XLA's CPU compiler drops NaN in
// minimum and maximum without this flag.
inline std::vector<std::pair<std::string, FlagValue>> needed_flags(std::string_view platform) {
  if (platform == "cpu") return {{"xla_cpu_enable_fast_min_max", FlagValue(false)}};
  return {};
}

// Compiles with options.flags. A compiler that lacks one of `needed` (flags come and go)
// is called again without it, with a warning; an unknown flag of the user is an
// error.
std::shared_ptr<const Executable>
compile_text(const Client& client, std::string_view program, CompileOptions options,
             const std::vector<std::pair<std::string, FlagValue>>& needed);

} // namespace dllm::pjrt
