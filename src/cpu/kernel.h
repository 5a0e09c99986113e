#pragma once
// The seam between the executor (plan, arena, scan and while) and the kernels (one file per
// operation in kernels/). A factory looks at a node once, at compile time, and answers with a
// Kernel; the executor calls it at every run.

#include "base/parallel.h"
#include "comm/communicator.h"
#include "graph/graph.h"
#include "graph/mesh.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace dllm::cpu {

// Ways a matrix (out, in) may lie in memory. Packed forms are panels of gemm/pack.h.
enum Form : uint32_t {
  kPlain = 1,
  kPacked = 2,           // for x w^T: panels over `out`, chains over `in`
  kPackedTransposed = 4, // for dy w: panels over `in`, chains over `out`
};
using FormSet = uint32_t;

// One operand or result at run time. A form that is not there is null.
struct Operand {
  std::byte* data = nullptr; // plain, row-major
  const std::byte* packed = nullptr;
  const std::byte* packed_transposed = nullptr;

  template <class T> const T* in() const { return reinterpret_cast<const T*>(data); }
  template <class T> T* out() const { return reinterpret_cast<T*>(data); }
};

struct KernelCall {
  const Operand* inputs; // in the node's order
  const Operand* outputs;
  std::byte* scratch; // Kernel::scratch_bytes, 64-byte aligned; content is undefined
  Workers pool; // threads, and the task that stops the run: kernels leave by its exception
  // The other ranks; null in a program of one rank. Never called inside a chunk of the pool.
  comm::Communicator* communicator = nullptr;
};

struct Kernel {
  // Throws Code::internal, and what check_task throws; then the outputs hold anything. Checks the
  // task (parallel, split, gemm and pack do) so often that 10 ms of work at most lie between.
  std::function<void(const KernelCall&)> run;
  int64_t scratch_bytes = 0;
  // Forms wanted of each input; empty: plain. Given only for inputs where CompileInfo::keeps_forms
  // is true.
  std::vector<FormSet> wants;
  // Output i may be written over input alias_of[i] when this node is its last reader (-1: never).
  // Empty: never.
  std::vector<int> may_overwrite;
  // Output element i depends on element i of every input of that size alone: each may be
  // overwritten at its last use.
  bool elementwise = false;
  // Values the kernel reads instead of the node's inputs (a factory that looks through
  // `broadcast`); empty: as they are. may_overwrite and wants count in these.
  std::vector<int32_t> reads;
  // The output is the first input, looked at with another shape (reshape, barrier): no work, no
  // memory.
  bool is_view = false;
};

struct CompileInfo {
  const graph::Graph& graph;
  const graph::Node& node;
  int threads;
  // True when input i is (a layer of) a parameter, whose packed forms outlive the run.
  std::vector<bool> keeps_forms;
  graph::Placement place; // the rank the program is for

  const graph::ValueType& input(size_t i) const { return graph.type(node.inputs[i]); }
  const graph::ValueType& output(size_t i) const { return graph.type(node.outputs[i]); }
};

using KernelFactory = Kernel (*)(const CompileInfo&);

// The factory of an operation, or null when only its decomposition runs here. One table in
// kernels/registry.cpp.
KernelFactory find_kernel(std::string_view op);

// Bytes of a packed form of an (n, k) matrix of `dtype` (f32, bf16, i8).
int64_t packed_bytes(int64_t n, int64_t k, DType dtype);

} // namespace dllm::cpu
