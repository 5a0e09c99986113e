#include "cpu/kernels/factories.h"
#include "cpu/kernels/head.h"
#include "cpu/kernels/loss_rows.h"
#include "cpu/kernels/online_softmax.h"

namespace dllm::cpu {

// x, weight, [bias], [scale], targets, [count] -> nll f32(capacity), lse f32(capacity). The
// vocabulary streams by in blocks; each row keeps its running maximum and sum.
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

} // namespace dllm::cpu
