#include "pjrt/executable.h"

#include "pjrt/client.h"

namespace dllm::pjrt {
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

} // namespace dllm::pjrt
