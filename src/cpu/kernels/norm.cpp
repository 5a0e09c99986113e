// rms_norm and layer_norm with their gradients.

#include "base/threads/parallel.h"
#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

#include <algorithm>
#include <cstdint>

namespace dllm::cpu {
namespace {

// Adds over rows for the gradients of norm weights and biases. The blocks depend only on the number
// of rows. The rows of a block are added in order, then the blocks in order. So the bits do not
// depend on the threads.

class RowBlocks {
public:
  explicit RowBlocks(int64_t count)
      : count_(count), size_(std::max<int64_t>(kSmallest, (count + kMost - 1) / kMost)) {}

  int64_t blocks() const { return (count_ + size_ - 1) / size_; }

  // Calls body(row, block) for every row; the rows of a block are called in order.
  template <class F> void each(const Workers& pool, const F& body) const {
    parallel(pool, blocks(), [&](int64_t block) {
      for (int64_t row = block * size_; row < std::min(count_, (block + 1) * size_); ++row)
        body(row, block);
    });
  }

  // Writes the sum of partial (blocks, n) over the blocks, in order, to total (n).
  void add_up(const float* partial, int64_t n, float* total) const {
    std::fill_n(total, n, 0.0f);
    for (int64_t block = 0; block < blocks(); ++block) rows().add_to(partial + block * n, n, total);
  }

private:
  static constexpr int64_t kSmallest = 16;
  static constexpr int64_t kMost = 64;
  int64_t count_;
  int64_t size_;
};

Kernel make_rms_norm(const CompileInfo& info) {
  const bool has_weight = info.node.attributes.flag("has_weight");
  const float eps = static_cast<float>(info.node.attributes.number("eps"));
  const int64_t n = info.input(0).shape.dim(-1);
  const int64_t count = info.input(0).shape.count() / std::max<int64_t>(1, n);
  Kernel kernel;
  kernel.may_overwrite = {0};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const float* weight = has_weight ? call.inputs[1].in<float>() : nullptr;
    float* y = call.outputs[0].out<float>();
    split(call.pool, count, grain_of(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        math.rms_norm(x + row * n, weight, n, eps, y + row * n);
    });
  };
  return kernel;
}

// x, dy, [weight] -> dx, [dweight]
Kernel make_rms_norm_grad(const CompileInfo& info) {
  const bool has_weight = info.node.attributes.flag("has_weight");
  const float eps = static_cast<float>(info.node.attributes.number("eps"));
  const int64_t n = info.input(0).shape.dim(-1);
  const RowBlocks blocks(info.input(0).shape.count() / std::max<int64_t>(1, n));
  ScratchLayout layout;
  const int64_t partial = has_weight ? layout.add_floats(blocks.blocks() * n) : -1;

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const float* dy = call.inputs[1].in<float>();
    const float* weight = has_weight ? call.inputs[2].in<float>() : nullptr;
    float* sums = has_weight ? reinterpret_cast<float*>(call.scratch + partial) : nullptr;
    if (has_weight) std::fill_n(sums, blocks.blocks() * n, 0.0f);
    float* dx = call.outputs[0].out<float>();
    blocks.each(call.pool, [&](int64_t row, int64_t block) {
      math.rms_norm_grad(x + row * n, dy + row * n, weight, n, eps, dx + row * n,
                         has_weight ? sums + block * n : nullptr);
    });
    if (has_weight) blocks.add_up(sums, n, call.outputs[1].out<float>());
  };
  return kernel;
}

Kernel make_layer_norm(const CompileInfo& info) {
  const bool has_weight = info.node.attributes.flag("has_weight");
  const bool has_bias = info.node.attributes.flag("has_bias");
  const float eps = static_cast<float>(info.node.attributes.number("eps"));
  const int64_t n = info.input(0).shape.dim(-1);
  const int64_t count = info.input(0).shape.count() / std::max<int64_t>(1, n);
  Kernel kernel;
  kernel.may_overwrite = {0};
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const float* weight = has_weight ? call.inputs[1].in<float>() : nullptr;
    const float* bias = has_bias ? call.inputs[has_weight ? 2 : 1].in<float>() : nullptr;
    float* y = call.outputs[0].out<float>();
    split(call.pool, count, grain_of(2 * n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        math.layer_norm(x + row * n, weight, bias, n, eps, y + row * n);
    });
  };
  return kernel;
}

// x, dy, [weight] -> dx, [dweight], [dbias]
Kernel make_layer_norm_grad(const CompileInfo& info) {
  const bool has_weight = info.node.attributes.flag("has_weight");
  const bool has_bias = info.node.attributes.flag("has_bias");
  const float eps = static_cast<float>(info.node.attributes.number("eps"));
  const int64_t n = info.input(0).shape.dim(-1);
  const RowBlocks blocks(info.input(0).shape.count() / std::max<int64_t>(1, n));
  const int64_t size = blocks.blocks() * n;
  ScratchLayout layout;
  const int64_t partial = layout.add_floats(2 * size);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.run = [=](const KernelCall& call) {
    const Rows& math = rows();
    const float* x = call.inputs[0].in<float>();
    const float* dy = call.inputs[1].in<float>();
    const float* weight = has_weight ? call.inputs[2].in<float>() : nullptr;
    float* dweight = reinterpret_cast<float*>(call.scratch + partial);
    float* dbias = dweight + size;
    std::fill_n(dweight, 2 * size, 0.0f);
    float* dx = call.outputs[0].out<float>();
    blocks.each(call.pool, [&](int64_t row, int64_t block) {
      math.layer_norm_grad(x + row * n, dy + row * n, weight, n, eps, dx + row * n,
                           dweight + block * n, dbias + block * n);
    });
    if (has_weight) blocks.add_up(dweight, n, call.outputs[1].out<float>());
    if (has_bias) blocks.add_up(dbias, n, call.outputs[has_weight ? 2 : 1].out<float>());
  };
  return kernel;
}

constexpr KernelEntry kNormKernels[] = {
    {"layer_norm", make_layer_norm},
    {"layer_norm_grad", make_layer_norm_grad},
    {"rms_norm", make_rms_norm},
    {"rms_norm_grad", make_rms_norm_grad},
};

} // namespace

KernelList norm_kernels() {
  return kNormKernels;
}

} // namespace dllm::cpu
