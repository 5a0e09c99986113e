// Cross entropy of a head, and its gradient. Only the logits of one block of the vocabulary exist
// at a time.

#include "cpu/kernel.h"
#include "cpu/kernels/loss_rows.h"
#include "cpu/kernels/rows/rows.h"
#include "cpu/kernels/weight.h"
#include "cpu/kernels/weight_grad.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace dllm::cpu {
namespace {

// x, weight, [bias], [scale], targets, [count] -> nll f32(capacity), lse f32(capacity). The blocks
// of the vocabulary are computed in order, and each row keeps its running maximum and sum.
Kernel make_linear_cross_entropy(const CompileInfo& info) {
  ScratchLayout layout;
  const Head head(info, layout);
  const size_t targets_input = head.next_input();
  const int count_input =
      info.node.attributes.flag("has_count") ? static_cast<int>(targets_input + 1) : -1;
  const int64_t capacity = head.capacity(), in = head.in(), vocab = head.vocab();
  const int64_t block = vocab_block(capacity, vocab);
  const int64_t gathered = layout.add_floats(capacity * in);
  const int64_t logits = layout.add_floats(capacity * block);
  const int64_t states = layout.add(capacity * static_cast<int64_t>(sizeof(OnlineSoftmax)));
  const int64_t hits = layout.add_floats(capacity);

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants.assign(info.node.inputs.size(), kPlain);
  kernel.wants[1] = head.wants();
  kernel.run = [=](const KernelCall& call) {
    const LossRows active(call.inputs[targets_input].in<int32_t>(),
                          rows_in_use(call, count_input, capacity), vocab);
    float* nll = call.outputs[0].out<float>();
    float* lse = call.outputs[1].out<float>();
    std::fill_n(nll, capacity, 0.0f);
    std::fill_n(lse, capacity, 0.0f);
    if (active.size() == 0) return;
    float* x = reinterpret_cast<float*>(call.scratch + gathered);
    float* z = reinterpret_cast<float*>(call.scratch + logits);
    float* hit = reinterpret_cast<float*>(call.scratch + hits);
    OnlineSoftmax* state = reinterpret_cast<OnlineSoftmax*>(call.scratch + states);
    active.gather(call.inputs[0].in<float>(), in, x, call.pool);
    std::fill_n(state, active.size(), OnlineSoftmax{});
    const std::byte* panels = head.panels(call);
    for (int64_t begin = 0; begin < vocab; begin += block) {
      const int64_t width = std::min(block, vocab - begin);
      head.logits(call, panels, x, active.size(), begin, begin + width, z, width);
      split(call.pool, active.size(), grain_of(2 * width), [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const int64_t target = active.targets[static_cast<size_t>(i)] - begin;
          if (target >= 0 && target < width) hit[i] = z[i * width + target];
          state[i].add(z + i * width, width);
        }
      });
    }
    for (int64_t i = 0; i < active.size(); ++i) {
      const int32_t row = active.rows[static_cast<size_t>(i)];
      lse[row] = state[i].log_sum_exp();
      nll[row] = lse[row] - hit[i];
    }
  };
  return kernel;
}

// x, weight, [bias], [scale], targets, [count], lse, dnll -> dx, [dweight], [dbias]. Logits are
// computed again for each block of the vocabulary. dx is one chain over the vocabulary, dweight is
// one chain over the rows.
Kernel make_linear_cross_entropy_grad(const CompileInfo& info) {
  const graph::Attributes& attributes = info.node.attributes;
  ScratchLayout layout;
  const Head head(info, layout);
  const WeightOperand transposed_weight(info, 1, kPackedTransposed, head.capacity(), layout);
  const size_t targets_input = head.next_input();
  const int count_input = attributes.flag("has_count") ? static_cast<int>(targets_input + 1) : -1;
  const size_t lse_input = targets_input + (count_input >= 0 ? 2 : 1);
  const bool want_weight = attributes.flag("want_weight"), want_bias = attributes.flag("want_bias");
  const int64_t capacity = head.capacity(), in = head.in(), vocab = head.vocab();
  const int64_t block = vocab_block(capacity, vocab);
  const int64_t gathered = layout.add_floats(capacity * in);
  const int64_t input_grads = layout.add_floats(capacity * in);
  const int64_t logits = layout.add_floats(capacity * block);
  const auto weight_grad =
      want_weight ? std::optional<WeightGradient>(std::in_place, info.arithmetic, capacity,
                                                  std::min(block, vocab), in, layout)
                  : std::nullopt;

  Kernel kernel;
  kernel.scratch_bytes = layout.bytes();
  kernel.wants.assign(info.node.inputs.size(), kPlain);
  kernel.wants[1] = head.wants() | transposed_weight.wants();
  kernel.run = [=](const KernelCall& call) {
    const LossRows active(call.inputs[targets_input].in<int32_t>(),
                          rows_in_use(call, count_input, capacity), vocab);
    float* dx = call.outputs[0].out<float>();
    float* dweight = want_weight ? call.outputs[1].out<float>() : nullptr;
    float* dbias = want_bias ? call.outputs[want_weight ? 2 : 1].out<float>() : nullptr;
    std::fill_n(dx, capacity * in, 0.0f);
    if (active.size() == 0) {
      if (want_weight) {
        split(call.pool, vocab * in, grain_of(1),
              [&](int64_t begin, int64_t end) { std::fill(dweight + begin, dweight + end, 0.0f); });
      }
      if (want_bias) std::fill_n(dbias, vocab, 0.0f);
      return;
    }
    const LossGrad loss{call,
                        active,
                        call.inputs[lse_input].in<float>(),
                        call.inputs[lse_input + 1].in<float>(),
                        head.scale(call),
                        head.softcap()};
    float* x = reinterpret_cast<float*>(call.scratch + gathered);
    float* z = reinterpret_cast<float*>(call.scratch + logits);
    active.gather(call.inputs[0].in<float>(), in, x, call.pool);
    const std::byte* panels = head.panels(call);
    Gemm to_input = transposed_weight.gemm(call);
    to_input.c = reinterpret_cast<float*>(call.scratch + input_grads);
    to_input.c_stride = in;
    to_input.m = active.size();
    if (weight_grad) weight_grad->set_rows(call, x, active.size());
    for (int64_t begin = 0; begin < vocab; begin += block) {
      const int64_t width = std::min(block, vocab - begin);
      head.logits(call, panels, x, active.size(), begin, begin + width, z, width);
      loss.logit_grads(z, width, 0, active.size(), begin, width);
      if (want_bias) loss.add_bias(z, width, active.size(), width, false, dbias + begin);
      if (loss.scale != nullptr) loss.apply_scale(z, width, active.size(), begin, width);
      to_input.a = z;
      to_input.a_stride = width;
      to_input.accumulate = begin > 0;
      gemm_parallel(transposed_weight.chain_part(to_input, begin, width), call.pool);
      if (weight_grad)
        weight_grad->add(call, z, width, active.size(), width, dweight + begin * in, false);
    }
    for (int64_t i = 0; i < active.size(); ++i) {
      std::copy_n(to_input.c + i * in, in, dx + active.rows[static_cast<size_t>(i)] * in);
    }
  };
  return kernel;
}

constexpr KernelEntry kLinearCrossEntropyKernels[] = {
    {"linear_cross_entropy", make_linear_cross_entropy},
    {"linear_cross_entropy_grad", make_linear_cross_entropy_grad},
};

} // namespace

KernelList linear_cross_entropy_kernels() {
  return kLinearCrossEntropyKernels;
}

} // namespace dllm::cpu
