// Cross entropy of a head and its gradient in one pass. It computes the logits of some rows over
// the whole vocabulary, once. So it needs three products in place of four and gives the same bits.

#include "cpu/kernel.h"
#include "cpu/kernels/loss_rows.h"
#include "cpu/kernels/rows/rows.h"
#include "cpu/kernels/weight.h"
#include "cpu/kernels/weight_grad.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace dllm::cpu {
namespace {

constexpr int64_t kLogitFloats = int64_t{22} << 20; // logits that exist at a time, 88 MiB
// Panels of a weight that turns (PanelForm) are expanded for every chunk of rows, so its chunks
// have more rows.
constexpr int64_t kExpandedLogitFloats = int64_t{44} << 20;
constexpr int64_t kBlockFloats = int64_t{1} << 22; // packed part of a weight, 16 MiB
constexpr int64_t kPieceFloats = 512; // a piece of OnlineSoftmax; blocks begin at multiples of it

// The weight in both packed forms, one block of the vocabulary at a time. A trained weight is
// packed block by block for every chunk of rows. Two packed copies of a head would need more memory
// than the logits.
class HeadBlocks {
public:
  // `rows` is the largest number of rows of a chunk.
  HeadBlocks(const CompileInfo& info, int64_t rows, ScratchLayout& layout)
      : whole_(info.input(1).format != nullptr ||
               (info.keeps_forms.size() > 1 && info.keeps_forms[1])),
        block_(ids_of_block(info.input(1).numbers().dim(1))),
        head_(info, rows, {block_, whole_}, layout),
        transposed_(info, 1, kPackedTransposed, rows, {block_, whole_}, layout),
        dtype_(info.input(1).dtype) {
    if (whole_) return;
    const int64_t width = std::min(block_, head_.vocab());
    scratch_ = layout.add(std::max(head_.form().bytes(width, head_.in()),
                                   transposed_.form().bytes(width, head_.in())));
  }

  const Head& head() const { return head_; }
  int64_t block() const { return block_; }
  FormSet wants() const { return whole_ ? head_.wants() | transposed_.wants() : FormSet{kPlain}; }

  // Panels of a whole weight, made once per run. They are null for a weight that is packed in
  // blocks.
  struct Panels {
    const std::byte* forward = nullptr;
    const std::byte* transposed = nullptr;
  };
  Panels panels(const KernelCall& call) const {
    if (!whole_) return {};
    return {head_.panels(call), transposed_.panels(call)};
  }

  void logits(const KernelCall& call, const Panels& panels, const float* x, int64_t rows,
              int64_t begin, int64_t width, float* z, int64_t stride) const {
    if (whole_) {
      head_.logits(call, panels.forward, x, rows, begin, begin + width, z + begin, stride);
      return;
    }
    std::byte* block = call.scratch + scratch_;
    pack(head_.form(), rows_from(call, begin), width, head_.in(), block, call.pool);
    head_.block_logits(call, block, x, rows, begin, begin + width, z + begin, stride);
  }

  // Adds g w over the ids of one block to dx; the first block overwrites dx.
  void input_grad(const KernelCall& call, const Panels& panels, const float* g, int64_t stride,
                  int64_t rows, int64_t begin, int64_t width, float* dx) const {
    Gemm gemm = transposed_.product(call, panels.transposed);
    if (whole_) {
      gemm = transposed_.chain_part(gemm, begin, width);
    } else {
      std::byte* block = call.scratch + scratch_;
      pack(transposed_.form(), rows_from(call, begin), width, head_.in(), block, call.pool);
      gemm.b = block;
      gemm.k = width;
    }
    gemm.a = g;
    gemm.a_stride = stride;
    gemm.c = dx;
    gemm.c_stride = head_.in();
    gemm.m = rows;
    gemm.accumulate = begin > 0;
    gemm_parallel(gemm, call.pool);
  }

private:
  const std::byte* rows_from(const KernelCall& call, int64_t begin) const {
    return call.inputs[1].data + begin * head_.in() * dtype_size(dtype_);
  }

  static int64_t ids_of_block(int64_t in) {
    const int64_t pieces = kBlockFloats / std::max<int64_t>(1, in) / kPieceFloats;
    return std::max<int64_t>(1, pieces) * kPieceFloats;
  }

  bool whole_;
  int64_t block_;
  Head head_;
  WeightOperand transposed_;
  DType dtype_;
  int64_t scratch_ = -1;
};

// One run, which goes through the rows in chunks. For a chunk it computes all logits, then the
// loss, then the gradients.
struct LossPass {
  const KernelCall& call;
  const HeadBlocks& blocks;
  const LossRows& active;
  const HeadBlocks::Panels panels;
  const LossGrad grads;
  int64_t stride; // of a row of logits
  float *x, *z, *dx;
  const WeightGradient* weight_grad; // null: none is wanted
  float *nll, *lse, *dweight, *dbias;

  template <class F> void each_block(F&& run) const {
    const int64_t vocab = blocks.head().vocab();
    for (int64_t begin = 0; begin < vocab; begin += blocks.block())
      run(begin, std::min(blocks.block(), vocab - begin));
  }

  // Computes the loss of a row in the pieces of linear_cross_entropy, so the bits are the same.
  void row_loss(int64_t active_row, const float* logits) const {
    const int64_t vocab = blocks.head().vocab();
    OnlineSoftmax state;
    float piece[kPieceFloats];
    for (int64_t j = 0; j < vocab; j += kPieceFloats) {
      const int64_t count = std::min(kPieceFloats, vocab - j);
      std::copy_n(logits + j, count, piece);
      state.add(piece, count);
    }
    const auto at = static_cast<size_t>(active_row);
    const int32_t row = active.rows[at];
    lse[row] = state.log_sum_exp();
    nll[row] = lse[row] - logits[active.targets[at]];
  }

  void chunk(int64_t from, int64_t rows) const {
    const int64_t in = blocks.head().in(), vocab = blocks.head().vocab();
    active.gather(call.inputs[0].in<float>(), in, from, rows, x, call.pool);
    if (weight_grad != nullptr) weight_grad->set_rows(call, x, rows);
    each_block([&](int64_t begin, int64_t width) {
      blocks.logits(call, panels, x, rows, begin, width, z, stride);
    });
    split(call.pool, rows, grain_of(8 * vocab), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        row_loss(from + i, z + i * stride);
        grads.row_grads(z + i * stride, from + i, 0, vocab);
      }
    });
    each_block([&](int64_t begin, int64_t width) {
      const bool more = from > 0;
      if (dbias != nullptr) grads.add_bias(z + begin, stride, rows, width, more, dbias + begin);
      if (grads.scale != nullptr) grads.apply_scale(z + begin, stride, rows, begin, width);
      blocks.input_grad(call, panels, z + begin, stride, rows, begin, width, dx);
      if (weight_grad != nullptr)
        weight_grad->add(call, z + begin, stride, rows, width, dweight + begin * in, more);
    });
    float* to = call.outputs[2].out<float>();
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(dx + i * in, in, to + active.rows[static_cast<size_t>(from + i)] * in);
  }
};

// Returns the largest number of rows of a chunk.
int64_t chunk_rows(int64_t capacity, int64_t stride, bool turns) {
  constexpr int64_t kFewest = 64;
  const int64_t floats = turns ? kExpandedLogitFloats : kLogitFloats;
  const int64_t wanted = std::max(kFewest, floats / std::max<int64_t>(stride, 1));
  return std::max<int64_t>(1, std::min(capacity, wanted / kPanel * kPanel));
}

// x, weight, [bias], [scale], targets, [count], dnll -> nll, lse, dx, [dweight], [dbias]. dx is one
// chain over the vocabulary and dweight one chain over the rows, as in linear_cross_entropy_grad.
Kernel make_linear_cross_entropy_with_grad(const CompileInfo& info) {
  const graph::Attributes& attributes = info.node.attributes;
  ScratchLayout layout;
  const int64_t vocab = info.input(1).numbers().dim(0);
  // The stride is not a power of two, because the product for the weight reads columns of the
  // logits.
  const int64_t stride = (vocab + kPanel - 1) / kPanel * kPanel + kPanel;
  const PanelForm stored = stored_form(info, 1, kPackedTransposed);
  const int64_t most = chunk_rows(info.input(0).shape.dim(0), stride, stored.turns());
  const HeadBlocks blocks(info, most, layout);
  const Head& head = blocks.head();
  const size_t targets_input = head.next_input();
  const int count_input = attributes.flag("has_count") ? static_cast<int>(targets_input + 1) : -1;
  const size_t dnll_input = targets_input + (count_input >= 0 ? 2 : 1);
  const bool want_weight = attributes.flag("want_weight"), want_bias = attributes.flag("want_bias");
  const int64_t capacity = head.capacity(), in = head.in();
  const int64_t gathered = layout.add_floats(most * in);
  const int64_t input_grads = layout.add_floats(most * in);
  const int64_t logits = layout.add_floats(most * stride);
  const auto weight_grad =
      want_weight ? std::optional<WeightGradient>(std::in_place, info.arithmetic, most,
                                                  std::min(blocks.block(), vocab), in, layout)
                  : std::nullopt;

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants.assign(info.node.inputs.size(), kPlain);
  kernel.wants[1] = blocks.wants();
  kernel.run = [=](const KernelCall& call) {
    const LossRows active(call.inputs[targets_input].in<int32_t>(),
                          rows_in_use(call, count_input, capacity), vocab);
    const auto zero = [&](float* to, int64_t count) {
      split(call.pool, count, grain_of(1),
            [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, 0.0f); });
    };
    float* nll = call.outputs[0].out<float>();
    float* lse = call.outputs[1].out<float>();
    float* dweight = want_weight ? call.outputs[3].out<float>() : nullptr;
    float* dbias = want_bias ? call.outputs[want_weight ? 4 : 3].out<float>() : nullptr;
    zero(nll, capacity);
    zero(lse, capacity);
    zero(call.outputs[2].out<float>(), capacity * in);
    if (active.size() == 0) {
      if (want_weight) zero(dweight, vocab * in);
      if (want_bias) zero(dbias, vocab);
      return;
    }
    const auto floats = [&](int64_t offset) {
      return reinterpret_cast<float*>(call.scratch + offset);
    };
    const LossGrad grads{call,
                         active,
                         lse,
                         call.inputs[dnll_input].in<float>(),
                         blocks.head().scale(call),
                         blocks.head().softcap()};
    const LossPass pass{call,
                        blocks,
                        active,
                        blocks.panels(call),
                        grads,
                        stride,
                        floats(gathered),
                        floats(logits),
                        floats(input_grads),
                        weight_grad ? &*weight_grad : nullptr,
                        nll,
                        lse,
                        dweight,
                        dbias};
    const int64_t chunks = (active.size() + most - 1) / most;
    const int64_t rows =
        std::min(most, ((active.size() + chunks - 1) / chunks + kPanel - 1) / kPanel * kPanel);
    for (int64_t from = 0; from < active.size(); from += rows)
      pass.chunk(from, std::min(rows, active.size() - from));
  };
  return kernel;
}

constexpr KernelEntry kCrossEntropyWithGradKernels[] = {
    {"linear_cross_entropy_with_grad", make_linear_cross_entropy_with_grad},
};

} // namespace

KernelList cross_entropy_with_grad_kernels() {
  return kCrossEntropyWithGradKernels;
}

} // namespace dllm::cpu
