#pragma once
// Between the executor (plan, arena, scan and while) and the kernels: a factory looks at a node once, when a program is
// compiled, and gives a Kernel; the executor calls it at every run. Also what kernels share: cutting work over threads and
// scratch memory into parts.

#include "base/parallel.h"
#include "comm/communicator.h"
#include "cpu/run_pause.h"
#include "graph/graph.h"
#include "graph/mesh.h"
#include "tensor/weight_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace dllm::cpu {

// Forms of a matrix (out, in) in memory. Packed forms are panels of gemm/gemm.h.
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
  Workers pool;       // threads, and the task that stops the run: kernels leave by its exception
  // The other ranks; null in a program of one rank. Never called inside a chunk of the pool.
  comm::Communicator* communicator = nullptr;
  // Not null: an operation that takes more than a millisecond looks at it between its parts.
  RunPause* pause = nullptr;
};

struct Kernel {
  // Throws Code::internal, and what check_task throws; then the outputs hold anything. Checks the
  // task (parallel, split, gemm and pack do) at least every 10 ms of work.
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
  // The output is the first input with another shape (reshape, barrier): no work, no
  // memory.
  bool is_view = false;
};

inline Kernel view_kernel() {
  Kernel kernel;
  kernel.is_view = true;
  return kernel;
}

struct CompileInfo {
  const graph::Graph& graph;
  const graph::Node& node;
  int threads;
  // True when input i is (a layer of) a parameter, whose packed forms outlive the run.
  std::vector<bool> keeps_forms;
  graph::Placement place;                 // the rank the program is for
  Arithmetic arithmetic = kArithmeticF32; // of products with weights
  bool fuses = true;                      // steps of a loop's body (FrameRequest)

  const graph::ValueType& input(size_t i) const { return graph.type(node.inputs[i]); }
  const graph::ValueType& output(size_t i) const { return graph.type(node.outputs[i]); }
};

using KernelFactory = Kernel (*)(const CompileInfo&);

struct KernelEntry {
  std::string_view op;
  KernelFactory make;
};
// Every file of kernels/ gives the list of its operations; kernels/registry.cpp joins them.
using KernelList = std::span<const KernelEntry>;

// The factory of an operation, or null when only its decomposition runs here.
KernelFactory find_kernel(std::string_view op);

// Bytes of a packed form of an (n, k) matrix of `dtype` (f32, bf16, i8).
int64_t packed_bytes(int64_t n, int64_t k, DType dtype);

// Runs f(begin, end) over [0, count) in at most 4 ranges a thread, each worth `grain` items or
// more; a long range in pieces, between which the task is checked. Only for work whose items do not
// influence each other.
template <class F> void split(const Workers& pool, int64_t count, int64_t grain, F&& f) {
  if (count <= 0) return;
  constexpr int64_t kGrainsBetweenChecks = 512; // about 3 ms
  const int64_t threads = pool.threads();
  const int64_t most = threads == 1 ? 1 : threads * 4;
  const int64_t chunks = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, most);
  const int64_t piece = std::max<int64_t>(grain, 1) * kGrainsBetweenChecks;
  parallel(pool, chunks, [&](int64_t i) {
    const int64_t first = count * i / chunks;
    in_pieces(count * (i + 1) / chunks - first, piece, pool.task,
              [&](int64_t begin, int64_t end) { f(first + begin, first + end); });
  });
}

// Items that are worth a chunk when one item costs `operations` simple operations: about 6 us.
inline int64_t grain_of(int64_t operations) {
  return std::max<int64_t>(1, 12500 / std::max<int64_t>(operations, 1));
}

// Offsets of parts of a scratch block, each 64-byte aligned.
class ScratchLayout {
public:
  int64_t add(int64_t bytes) {
    const int64_t offset = size_;
    size_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  int64_t add_floats(int64_t count) { return add(count * static_cast<int64_t>(sizeof(float))); }
  int64_t bytes() const { return size_; }

private:
  int64_t size_ = 0;
};

} // namespace dllm::cpu
