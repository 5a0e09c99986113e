#pragma once
// Compilers: their options, and reports on the programs they make.

#include "pjrt/plugin/plugin.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dllm::pjrt {

// The options of a compiler, and their form on the wire: a CompileOptionsProto,
// written by hand.

// A flag of the compiler; plugins read numbers from text, but spell booleans in ways of their own.
using FlagValue = std::variant<bool, std::string>;

struct CompileOptions {
  int64_t replicas = 1;
  int64_t partitions = 1;
  bool spmd = false;
  bool shardy = false;
  // Ids of devices (not positions), replica by replica, partitions of one replica together; empty:
  // the client's order.
  std::vector<int64_t> devices;
  std::vector<bool> propagate_to_outputs; // may the partitioner shard outputs; empty: no
  std::vector<std::pair<std::string, FlagValue>> flags;
};

// REQUIRES: devices is empty or holds replicas x partitions ids.
std::string serialize(const CompileOptions& options);

// "xla_cpu_enable_fast_math=false" -> a flag. Fails with invalid_argument without a name or "=".
std::pair<std::string, FlagValue> parse_flag(const std::string& text);

// What is known of a compiled program, loaded on devices or not.

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
  NamedValues costs() const;             // "flops": loops counted once; empty: unknown
  std::string fingerprint() const;       // "": unknown
  std::string optimized_program() const; // a serialised HloModuleProtoWithConfig
  std::string serialize() const;         // fails with unimplemented on plugins without it

private:
  Handle<abi::Executable, abi::ExecutableDestroyArgs, &abi::ExecutableDestroyArgs::executable,
         &abi::Api::executable_destroy>
      handle_;
};

// The optimized program of a compiler as text: plugins give it as a protobuf message.

// The computations of an HLO module as text, one instruction a line, the entry computation last:
//   %all-gather.3 = f32[32,4]{1,0} all-gather(%param.1), dimensions={0},
//   replica_groups={{0,2},{1,3}}
// format as PJRT names it: "hlo" or "hlo_with_config". Fails with data_loss for bytes that are no
// module, with unimplemented for another format.
std::string hlo_text(std::string_view bytes, std::string_view format);

} // namespace dllm::pjrt
