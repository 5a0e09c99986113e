#pragma once
// What is known of a compiled program, loaded on devices or not.

#include "pjrt/call.h"
#include "pjrt/named_values.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dllm::pjrt {

// Bytes of one device. Fields a plugin is too old for are 0.
struct ProgramMemory {
  int64_t code = 0;
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliased = 0; // of the outputs: those that take an argument's place
  int64_t temporaries = 0;
  int64_t peak = 0;
  int64_t total = 0;
};

// Any thread. Facts a plugin does not offer are absent; other failures of the plugin are errors.
class Compiled {
public:
  Compiled(const abi::Api& api, abi::Executable* executable) : handle_(api, executable) {}

  abi::Executable* get() const { return handle_.get(); }
  int64_t output_count() const;
  std::vector<DType> output_types() const;
  std::vector<Shape> output_shapes() const; // of one device
  std::optional<ProgramMemory> memory() const;
  NamedValues costs() const;             // "flops": loops counted once; empty: not told
  std::string fingerprint() const;       // "": not told
  std::string optimized_program() const; // a serialised HloModuleProtoWithConfig
  std::string serialize() const;         // fails with unimplemented on plugins without it

private:
  Handle<abi::Executable, abi::ExecutableDestroyArgs, &abi::ExecutableDestroyArgs::executable,
         &abi::Api::executable_destroy>
      handle_;
};

} // namespace dllm::pjrt
