#pragma once
// A plugin's client: its devices, arrays put on them, programs compiled for them.

#include "pjrt/array.h"
#include "pjrt/compile_options.h"
#include "pjrt/device.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

class Executable;

// Shared by everything made from it and destroyed last. Any thread.
class Client : public std::enable_shared_from_this<Client> {
public:
  // Fails with the plugin's error; a client without a device of this process fails with
  // unavailable.
  static std::shared_ptr<const Client> create(const Plugin& plugin, const NamedValues& options);

  const Plugin& plugin() const { return *plugin_; }
  abi::Client* get() const { return handle_.get(); }
  const std::string& platform_name() const { return platform_name_; } // "cpu" "tpu" "cuda"
  const std::string& platform_version() const { return platform_version_; }
  const std::vector<Device>& devices() const { return devices_; } // of this process
  // The position of a device in devices(); -1: not there.
  int64_t index_of(const abi::Device* device) const;

  // `program` is StableHLO text. Fails with the compiler's message.
  std::shared_ptr<const Executable> compile(std::string_view program,
                                            const CompileOptions& options) const;
  // Bytes of Executable::serialize of the same plugin.
  std::shared_ptr<const Executable> load(std::string_view serialized) const;

  // `use` says until when the plugin reads the tensor's storage, which must not change before:
  // during the call, until it is copied, or, lent (CPUs, 64-byte aligned), for as long as the
  // buffer lives.
  Array upload(const Tensor& tensor, const Device& device,
               abi::HostBufferSemantics use = abi::HostBufferSemantics::during_call) const;

private:
  Client(const Plugin& plugin, abi::Client* client);

  const Plugin* plugin_;
  Handle<abi::Client, abi::ClientDestroyArgs, &abi::ClientDestroyArgs::client,
         &abi::Api::client_destroy>
      handle_;
  std::string platform_name_, platform_version_;
  std::vector<Device> devices_;
};

} // namespace dllm::pjrt
