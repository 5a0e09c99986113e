#include "pjrt/client.h"

#include "pjrt/executable.h"
#include "pjrt/types.h"

namespace dllm::pjrt {

std::shared_ptr<const Client> Client::create(const Plugin& plugin, const NamedValues& options) {
  const std::vector<abi::NamedValue> lent = lend_named_values(options);
  abi::ClientCreateArgs args{};
  args.create_options = lent.data();
  args.num_options = lent.size();
  call(plugin.api(), &abi::Api::client_create, args);
  return std::shared_ptr<const Client>(new Client(plugin, args.client));
}

Client::Client(const Plugin& plugin, abi::Client* client)
    : plugin_(&plugin), handle_(plugin.api(), client) {
  abi::ClientPlatformNameArgs name{};
  name.client = client;
  call(plugin.api(), &abi::Api::client_platform_name, name);
  platform_name_.assign(name.platform_name, name.platform_name_size);

  abi::ClientPlatformVersionArgs version{};
  version.client = client;
  call(plugin.api(), &abi::Api::client_platform_version, version);
  platform_version_.assign(version.platform_version, version.platform_version_size);

  abi::ClientAddressableDevicesArgs devices{};
  devices.client = client;
  call(plugin.api(), &abi::Api::client_addressable_devices, devices);
  for (size_t i = 0; i < devices.num_addressable_devices; ++i)
    devices_.emplace_back(plugin, devices.addressable_devices[i]);
  if (devices_.empty()) {
    fail(Code::unavailable, "plugin {} ({}) has no device here", plugin.path(), platform_name_);
  }
}

int64_t Client::index_of(const abi::Device* device) const {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].get() == device) return static_cast<int64_t>(i);
  }
  return -1;
}

std::shared_ptr<const Executable> Client::compile(std::string_view program,
                                                  const CompileOptions& options) const {
  const std::string wire = serialize(options);
  auto text = sized<abi::Program>();
  text.code = const_cast<char*>(program.data()); // compilers only read it
  text.code_size = program.size();
  text.format = "mlir";
  text.format_size = 4;
  abi::ClientCompileArgs args{};
  args.client = get();
  args.program = &text;
  args.compile_options = wire.data();
  args.compile_options_size = wire.size();
  call(plugin_->api(), &abi::Api::client_compile, args);
  return std::make_shared<const Executable>(shared_from_this(), args.executable);
}

std::shared_ptr<const Executable> Client::load(std::string_view serialized) const {
  abi::ExecutableDeserializeAndLoadArgs args{};
  args.client = get();
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  call(plugin_->api(), &abi::Api::executable_deserialize_and_load, args);
  return std::make_shared<const Executable>(shared_from_this(), args.loaded_executable);
}

Array Client::upload(const Tensor& tensor, const Device& device,
                     abi::HostBufferSemantics use) const {
  abi::ClientBufferFromHostBufferArgs args{};
  args.client = get();
  args.data = tensor.bytes();
  args.type = buffer_type(tensor.dtype());
  args.dims = tensor.shape().dims().data();
  args.num_dims = tensor.shape().dims().size();
  args.host_buffer_semantics = use;
  args.device = device.get();
  call(plugin_->api(), &abi::Api::client_buffer_from_host_buffer, args);
  Array made(shared_from_this(), args.buffer);
  // The plugin reads the storage until then. Of lent storage that is the array's end: never wait
  // for it while the array lives.
  const EventHandle done(plugin_->api(), args.done_with_host_buffer);
  try {
    when_ready(done, [held = tensor] {});
  } catch (const Error&) {
    made = Array();
    hold_until(done, tensor);
    throw;
  }
  return made;
}

} // namespace dllm::pjrt
