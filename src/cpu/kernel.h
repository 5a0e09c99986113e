#pragma once
// The interface between the executor (plan, arena, scan and while) and the kernels. A factory makes
// a Kernel from a node when a program is compiled, and the executor calls the kernel in every run.
// This header also has helpers of kernels, which cut work over threads and scratch memory into
// parts.

#include "base/threads/parallel.h"
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

// Forms of a matrix (out, in) in memory. Packed forms consist of panels (gemm/gemm.h).
enum Form : uint32_t {
  kPlain = 1,
  kPacked = 2,           // for x w^T: panels over `out`, chains over `in`
  kPackedTransposed = 4, // for dy w: panels over `in`, chains over `out`
};
using FormSet = uint32_t;

// The memory of one operand or result in a run. A form that does not exist is null.
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
  Workers pool;       // threads, and the task that stops the run by an exception
  // Connects to the other ranks; null in a program of one rank. Not used inside a chunk of the
  // pool.
  comm::Communicator* communicator = nullptr;
  // Null: the run is never paused. Kernels that take over a millisecond call look() between their
  // parts.
  RunPause* pause = nullptr;
};

struct Kernel {
  // Throws Code::internal and the errors of check_task; the outputs are undefined then. Must check
  // the task at least every 10 ms of work; parallel, split, gemm and pack do so.
  std::function<void(const KernelCall&)> run;
  int64_t scratch_bytes = 0;
  // By input: the forms that the kernel reads; empty: plain. Inputs whose CompileInfo::keeps_forms
  // is false are plain in any case.
  std::vector<FormSet> wants;
  // By output: the input whose memory it may overwrite when this node is the last reader; -1: none.
  // Empty: none for all outputs.
  std::vector<int> may_overwrite;
  // True: element i of the output depends only on element i of every input of the same size. The
  // output may overwrite each of these inputs at its last use.
  bool elementwise = false;
  // Values that the kernel reads in place of the node's inputs; empty: the node's inputs. A factory
  // sets it to skip a `broadcast`. may_overwrite and wants are indices into this list.
  std::vector<int32_t> reads;
  // True: the output is the first input with another shape (reshape, barrier). It needs no work and
  // no memory.
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
  // By input: true for a parameter or a layer of it. Packed forms of such an input outlive the run.
  std::vector<bool> keeps_forms;
  graph::Placement place;                 // the rank that runs the program
  Arithmetic arithmetic = kArithmeticF32; // of products with weights
  bool fuses = true;                      // elementwise steps of a loop's body run as one

  const graph::ValueType& input(size_t i) const { return graph.type(node.inputs[i]); }
  const graph::ValueType& output(size_t i) const { return graph.type(node.outputs[i]); }
};

using KernelFactory = Kernel (*)(const CompileInfo&);

struct KernelEntry {
  std::string_view op;
  KernelFactory make;
};
// Every file of kernels/ has a list of its operations; kernels/registry.cpp joins the lists.
using KernelList = std::span<const KernelEntry>;

// Returns the factory of an operation, or null when the operation must be decomposed first.
KernelFactory find_kernel(std::string_view op);

// Returns the bytes of a packed form of an (n, k) matrix of `dtype` (f32, bf16, i8).
int64_t packed_bytes(int64_t n, int64_t k, DType dtype);

// Runs f(begin, end) over [0, count) in at most 4 ranges per thread, each of `grain` items or more.
// A long range runs in pieces, and the task is checked between them. REQUIRES: items do not
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

// Returns how many items make a chunk of about 6 us, if one item costs `operations` simple
// operations.
inline int64_t grain_of(int64_t operations) {
  return std::max<int64_t>(1, 12500 / std::max<int64_t>(operations, 1));
}

// Cuts a scratch block into parts. Each part begins at a 64-byte aligned offset.
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
