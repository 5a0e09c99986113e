#pragma once
// What a compiler is told beside the program, and its form on the wire: a CompileOptionsProto,
// written by hand.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dllm::pjrt {

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

} // namespace dllm::pjrt
