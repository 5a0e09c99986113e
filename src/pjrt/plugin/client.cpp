// A plugin's client, and the objects on its devices: arrays and programs.
#include "pjrt/plugin/client.h"

#include "base/error.h"
#include "base/log.h"
#include "pjrt/plugin/key_values.h"
#include "pjrt/plugin/plugin.h"

#include <algorithm>
#include <numeric>

namespace dllm::pjrt {

std::shared_ptr<const Client> Client::create(const Plugin& plugin, const NamedValues& options,
                                             std::shared_ptr<comm::KeyValueStore> store) {
  const std::vector<abi::NamedValue> views = named_value_views(options);
  abi::ClientCreateArgs args{};
  args.create_options = views.data();
  args.num_options = views.size();
  if (store != nullptr) give_store(*store, args);
  call(plugin.api(), &abi::Api::client_create, args);
  return std::shared_ptr<const Client>(new Client(plugin, args.client, std::move(store)));
}

Client::Client(const Plugin& plugin, abi::Client* client,
               std::shared_ptr<comm::KeyValueStore> store)
    : plugin_(&plugin), store_(std::move(store)), handle_(plugin.api(), client) {
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

  abi::ClientDevicesArgs all{};
  all.client = client;
  call(plugin.api(), &abi::Api::client_devices, all);
  for (size_t i = 0; i < all.num_devices; ++i)
    all_ids_.push_back(Device(plugin, all.devices[i]).id());
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
  // The plugin reads the storage until `done` happens. For shared storage that is when the array
  // is destroyed, so nothing may wait for `done` while the array lives.
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

namespace {

abi::Executable* facts_of(const abi::Api& api, abi::LoadedExecutable* loaded) {
  abi::LoadedExecutableGetExecutableArgs args{};
  args.loaded_executable = loaded;
  call(api, &abi::Api::loaded_executable_get_executable, args);
  return args.executable;
}

} // namespace

Executable::Executable(std::shared_ptr<const Client> client, abi::LoadedExecutable* executable)
    : client_(std::move(client)), handle_(client_->plugin().api(), executable),
      compiled_(handle_.api(), facts_of(handle_.api(), executable)) {
  abi::LoadedExecutableAddressableDevicesArgs args{};
  args.executable = executable;
  call(handle_.api(), &abi::Api::loaded_executable_addressable_devices, args);
  devices_.assign(args.addressable_devices,
                  args.addressable_devices + args.num_addressable_devices);
  output_count_ = static_cast<size_t>(compiled_.output_count());
}

std::vector<std::vector<Array>>
Executable::run(std::span<const std::vector<const Array*>> arguments,
                std::span<const int64_t> keep) const {
  if (arguments.size() != devices_.size()) {
    fail(Code::invalid_argument, "a program of {} devices was given arguments for {}",
         devices_.size(), arguments.size());
  }
  const size_t count = devices_.size();
  std::vector<std::vector<abi::Buffer*>> in(count), out(count);
  std::vector<abi::Buffer* const*> in_lists;
  std::vector<abi::Buffer**> out_lists;
  for (size_t d = 0; d < count; ++d) {
    for (const Array* argument : arguments[d]) in[d].push_back(argument->get());
    out[d].resize(output_count_);
    in_lists.push_back(in[d].data());
    out_lists.push_back(out[d].data());
  }
  auto options = sized<abi::ExecuteOptions>();
  options.non_donatable_input_indices = keep.data();
  options.num_non_donatable_input_indices = keep.size();
  abi::LoadedExecutableExecuteArgs args{};
  args.executable = handle_.get();
  args.options = &options;
  args.argument_lists = in_lists.data();
  args.num_devices = count;
  args.num_args = in.empty() ? 0 : in.front().size();
  args.output_lists = out_lists.data();
  call(handle_.api(), &abi::Api::loaded_executable_execute, args);

  std::vector<std::vector<Array>> results(count);
  for (size_t d = 0; d < count; ++d) {
    for (abi::Buffer* made : out[d]) results[d].emplace_back(client_, made);
  }
  return results;
}

std::shared_ptr<const Executable>
compile_text(const Client& client, std::string_view program, CompileOptions options,
             const std::vector<std::pair<std::string, FlagValue>>& needed) {
  try {
    return client.compile(program, options);
  } catch (const Error& error) {
    // "No such compile option: 'xla_x'"
    const auto refused = std::find_if(needed.begin(), needed.end(), [&](const auto& flag) {
      return error.text().find("No such compile option: '" + flag.first + "'") != std::string::npos;
    });
    if (refused == needed.end() || std::erase(options.flags, *refused) == 0) throw;
    log(LogLevel::warn, "pjrt: the compiler has no flag {}, edges of operations (NaN) may differ",
        refused->first);
  }
  return compile_text(client, program, std::move(options), needed);
}

Array::Array(std::shared_ptr<const Client> client, abi::Buffer* buffer)
    : client_(std::move(client)), handle_(client_->plugin().api(), buffer) {}

Array& Array::operator=(Array&& other) noexcept {
  handle_ = std::move(other.handle_);
  std::swap(client_, other.client_);
  return *this;
}

DType Array::dtype() const {
  abi::BufferElementTypeArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_element_type, args);
  return dtype_of(args.type);
}

Shape Array::shape() const {
  abi::BufferDimensionsArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_dimensions, args);
  return Shape(std::vector<int64_t>(args.dims, args.dims + args.num_dims));
}

int64_t Array::device_bytes() const {
  abi::BufferOnDeviceSizeInBytesArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_on_device_size_in_bytes, args);
  return static_cast<int64_t>(args.on_device_size_in_bytes);
}

abi::Device* Array::device() const {
  abi::BufferDeviceArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_device, args);
  return args.device;
}

bool Array::is_deleted() const {
  if (!handle_) return true;
  abi::BufferIsDeletedArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_is_deleted, args);
  return args.is_deleted;
}

EventHandle Array::ready() const {
  abi::BufferReadyEventArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_ready_event, args);
  return EventHandle(handle_.api(), args.event);
}

uintptr_t Array::unsafe_pointer() const {
  abi::BufferUnsafePointerArgs args{};
  args.buffer = handle_.get();
  call(handle_.api(), &abi::Api::buffer_unsafe_pointer, args);
  return args.buffer_pointer;
}

EventHandle Array::copy_to(Tensor& into) const {
  // Without a layout the copy has the order of the device, which may not be row-major.
  std::vector<int64_t> minor_to_major(static_cast<size_t>(into.shape().rank()));
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  auto layout = sized<abi::BufferMemoryLayout>();
  layout.type = abi::BufferMemoryLayoutType::tiled;
  layout.tiled = sized<abi::BufferMemoryLayoutTiled>();
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();

  abi::BufferToHostBufferArgs args{};
  args.src = handle_.get();
  args.host_layout = &layout;
  args.dst = into.mutable_bytes();
  args.dst_size = static_cast<size_t>(into.byte_size());
  call(handle_.api(), &abi::Api::buffer_to_host_buffer, args);
  return EventHandle(handle_.api(), args.event);
}

void hold_until(const EventHandle& event, const Tensor& tensor) {
  try {
    when_ready(event, [held = tensor] {});
  } catch (const Error&) {
    try {
      await(event);
    } catch (const Error&) { // the event has happened, which is enough
    }
    throw;
  }
}

Tensor Array::read() const {
  Tensor made(dtype(), shape());
  if (made.count() > 0) await(copy_to(made));
  return made;
}

} // namespace dllm::pjrt
