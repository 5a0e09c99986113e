#pragma once
// A Client connects to the devices of a plugin. It compiles programs (Executable) and uploads
// arrays (Array).

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

// The description of a device, which may be on this machine or part of a topology.
struct DeviceFacts {
  int64_t id = 0;      // the id in a device assignment
  int64_t process = 0; // index of the process that owns the device
  std::string kind;    // "cpu", "TPU v5 lite", "NVIDIA H100 80GB HBM3"
  NamedValues attributes;
};
DeviceFacts describe_device(const Plugin& plugin, abi::DeviceDescription* description);

// Bytes of one device.
struct MemoryUse {
  int64_t used = 0;
  int64_t peak = 0;  // 0: unknown
  int64_t limit = 0; // 0: unknown
};

// A device of a client, valid as long as the client. Any thread.
class Device {
public:
  Device(const Plugin& plugin, abi::Device* device);

  abi::Device* get() const { return device_; }
  const DeviceFacts& facts() const { return facts_; }
  int64_t id() const { return facts_.id; }
  bool is_addressable() const; // true for a device of this process
  std::vector<std::string> memory_kinds() const;
  std::optional<MemoryUse> memory_use() const; // empty if the plugin does not count (cpu)

private:
  const Plugin* plugin_;
  abi::Device* device_;
  DeviceFacts facts_;
};

// Devices that a plugin compiles for, whether they are on this machine or not. Any thread.
class Topology {
public:
  // Fails with the plugin's error: invalid_argument for an unknown name, unimplemented on a plugin
  // without topologies.
  Topology(const Plugin& plugin, const std::string& name, const NamedValues& options);

  const Plugin& plugin() const { return *plugin_; }
  std::string platform_name() const; // "tpu", "cuda"
  const std::vector<DeviceFacts>& devices() const { return devices_; }
  // Returns the bytes of one device that programs may use; 0 if unknown.
  int64_t memory_limit() const;
  // Compiles StableHLO text. Fails with the compiler's message.
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

// An array on one device. Move-only; keeps its client alive. Several threads may read at once, but
// not during a run that the array is donated to.
class Array {
public:
  Array() = default;
  Array(std::shared_ptr<const Client> client, abi::Buffer* buffer);
  Array(Array&&) noexcept = default;
  Array& operator=(Array&& other) noexcept;
  ~Array() = default; // destroys handle_ before client_

  explicit operator bool() const { return static_cast<bool>(handle_); }
  abi::Buffer* get() const { return handle_.get(); }

  DType dtype() const;
  Shape shape() const;
  int64_t device_bytes() const; // includes the padding of the device
  abi::Device* device() const;
  bool is_deleted() const;   // true after donation, and for an empty Array
  EventHandle ready() const; // happens when the array has been computed
  // Returns the address on the device, for tests and zero-copy checks.
  uintptr_t unsafe_pointer() const;
  // Starts a row-major copy to `into`. The returned event happens at its end. REQUIRES: `into` has
  // the type and shape of the array and lives until the event has happened.
  EventHandle copy_to(Tensor& into) const;
  Tensor read() const; // waits for the copy

private:
  std::shared_ptr<const Client> client_;
  Handle<abi::Buffer, abi::BufferDestroyArgs, &abi::BufferDestroyArgs::buffer,
         &abi::Api::buffer_destroy>
      handle_;
};

// Keeps the storage of a tensor alive until an event has happened. If the plugin cannot call back,
// waits for the event and fails. REQUIRES: the event happens without further calls.
void hold_until(const EventHandle& event, const Tensor& tensor);

class Client;

// A program that is loaded on the devices of this process. Any thread.
class Executable {
public:
  Executable(std::shared_ptr<const Client> client, abi::LoadedExecutable* executable);

  const Compiled& compiled() const { return compiled_; }
  // Returns the devices of this process that the program runs on, in the order of its replicas.
  const std::vector<abi::Device*>& devices() const { return devices_; }

  // Starts the program with argument a of device d in arguments[d][a] and returns the results as
  // [d][output]. The ready events of the results report later failures. Donates the inputs that
  // outputs take over, except the inputs with indices in `keep`. REQUIRES: the arguments have the
  // types and shapes of the program, because the plugin compares only sizes.
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

// The connection to the devices of a plugin. Arrays and executables share it, so it is destroyed
// after them. Any thread.
class Client : public std::enable_shared_from_this<Client> {
public:
  // Fails with the plugin's error, and with unavailable if this process has no device. store: the
  // key-value store of several processes; the client keeps it alive.
  static std::shared_ptr<const Client> create(const Plugin& plugin, const NamedValues& options,
                                              std::shared_ptr<comm::KeyValueStore> store = nullptr);

  const Plugin& plugin() const { return *plugin_; }
  abi::Client* get() const { return handle_.get(); }
  // Returns "cpu", "tpu" or "cuda".
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  // Returns the devices of this process.
  const std::vector<Device>& devices() const { return devices_; }
  // Returns the ids of the devices of all processes.
  const std::vector<int64_t>& all_ids() const { return all_ids_; }
  // Returns the index of a device in devices(), or -1.
  int64_t index_of(const abi::Device* device) const;

  // Compiles StableHLO text. Fails with the compiler's message.
  std::shared_ptr<const Executable> compile(std::string_view program,
                                            const CompileOptions& options) const;
  // Loads a program that Compiled::serialize() of the same plugin returned.
  std::shared_ptr<const Executable> load(std::string_view serialized) const;

  // Uploads a tensor, whose storage must not change while the plugin reads it. `use` sets how long
  // that is: during the call, until the copy ends, or as long as the array lives. The last shares
  // the storage (CPUs, 64-byte aligned).
  Array upload(const Tensor& tensor, const Device& device,
               abi::HostBufferSemantics use = abi::HostBufferSemantics::during_call) const;

private:
  Client(const Plugin& plugin, abi::Client* client, std::shared_ptr<comm::KeyValueStore> store);

  const Plugin* plugin_;
  std::shared_ptr<comm::KeyValueStore> store_; // destroyed after handle_, which calls it
  Handle<abi::Client, abi::ClientDestroyArgs, &abi::ClientDestroyArgs::client,
         &abi::Api::client_destroy>
      handle_;
  std::string platform_name_, platform_version_;
  std::vector<Device> devices_;
  std::vector<int64_t> all_ids_;
};

// Returns flags that every program of a platform needs. Without this flag XLA's compiler for CPUs
// drops NaN in minimum and maximum.
inline std::vector<std::pair<std::string, FlagValue>> needed_flags(std::string_view platform) {
  if (platform == "cpu") return {{"xla_cpu_enable_fast_min_max", FlagValue(false)}};
  return {};
}

// Compiles with options.flags. If the compiler does not have a flag of `needed`, logs a warning and
// compiles again without it. Fails for any other unknown flag.
std::shared_ptr<const Executable>
compile_text(const Client& client, std::string_view program, CompileOptions options,
             const std::vector<std::pair<std::string, FlagValue>>& needed);

} // namespace dllm::pjrt
