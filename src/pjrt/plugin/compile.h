#pragma once
// A compiler reads CompileOptions; a Compiled reports on the program that it produced.

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

// A flag of the compiler. Numbers are passed as text, which plugins parse. Booleans have a type of
// their own, because plugins differ in how they spell them.
using FlagValue = std::variant<bool, std::string>;

struct CompileOptions {
  int64_t replicas = 1;
  int64_t partitions = 1;
  bool spmd = false;
  bool shardy = false;
  // Ids of devices (not indices), replica by replica, with the partitions of a replica together. An
  // empty list means the client's order.
  std::vector<int64_t> devices;
  // Whether the partitioner may cut an output, by output. An empty list forbids it for all outputs.
  std::vector<bool> propagate_to_outputs;
  std::vector<std::pair<std::string, FlagValue>> flags;
};

// Writes the options as a CompileOptionsProto. REQUIRES: devices is empty or holds replicas x
// partitions ids.
std::string serialize(const CompileOptions& options);

// Parses "xla_cpu_enable_fast_math=false". Fails with invalid_argument without a name or "=".
std::pair<std::string, FlagValue> parse_flag(const std::string& text);

// Bytes of a program on one device. Fields that an old plugin does not have are 0.
struct ProgramMemory {
  int64_t code = 0;
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliased = 0; // bytes of outputs that are stored in arguments
  int64_t temporaries = 0;
  int64_t peak = 0;
  int64_t total = 0;
};

// A compiled program, loaded on devices or not. Numbers that the plugin does not offer are absent;
// other failures of the plugin are errors. Any thread.
class Compiled {
public:
  Compiled(const abi::Api& api, abi::Executable* executable) : handle_(api, executable) {}

  abi::Executable* get() const { return handle_.get(); }
  int64_t output_count() const;
  std::vector<DType> output_types() const;
  std::vector<Shape> output_shapes() const; // shapes on one device
  std::optional<ProgramMemory> memory() const;
  NamedValues costs() const;       // {"flops", ...}, which count a loop once; empty if unknown
  std::string fingerprint() const; // "" if unknown
  // Returns a serialised HloModuleProtoWithConfig.
  std::string optimized_program() const;
  // Fails with unimplemented if the plugin cannot serialise programs.
  std::string serialize() const;

private:
  Handle<abi::Executable, abi::ExecutableDestroyArgs, &abi::ExecutableDestroyArgs::executable,
         &abi::Api::executable_destroy>
      handle_;
};

// Returns the computations of an HLO module, a protobuf message, as text with one instruction per
// line and the entry computation last:
//   %all-gather.3 = f32[32,4]{1,0} all-gather(%param.1), dimensions={0},
//   replica_groups={{0,2},{1,3}}
// format: "hlo" or "hlo_with_config", as PJRT names them. Fails with data_loss for bytes that are
// not a module, with unimplemented for another format.
std::string hlo_text(std::string_view bytes, std::string_view format);

} // namespace dllm::pjrt
