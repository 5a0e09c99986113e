#pragma once
// A program loaded on the devices of a client, ready to run on one or all of them.

#include "pjrt/array.h"
#include "pjrt/compiled.h"

#include <memory>
#include <span>
#include <vector>

namespace dllm::pjrt {

class Client;

// Any thread.
class Executable {
public:
  Executable(std::shared_ptr<const Client> client, abi::LoadedExecutable* executable);

  const Compiled& compiled() const { return compiled_; }
  // Position d runs replica d (those of this process).
  const std::vector<abi::Device*>& devices() const { return devices_; }

  // arguments[d][a] for device d. Starts the work and returns; what goes wrong later is told by the
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

} // namespace dllm::pjrt
