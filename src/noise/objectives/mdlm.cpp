// Masked diffusion (Sahoo et al. 2024, MDLM; Nie et al. 2025, LLaDA): a time per row, every trainable token masked with
// probability 1 - alpha(t), the loss on masked tokens weighted by -alpha' / (1 - alpha). The token norm divides by the
// trainable tokens, masked or not: then the loss is the NELBO per token.

#include "noise/objectives/masked.h"

namespace dllm::noise {
namespace {

class Mdlm final : public MaskedDiffusion {
public:
  Mdlm(ScheduleRef schedule, const Options& options)
      : MaskedDiffusion("mdlm", std::move(schedule), options) {}
  bool bounds_likelihood() const override { return is_nelbo(); }
};

} // namespace

ObjectiveEntry objective_files::mdlm() {
  return {"mdlm",
          "linear",
          masked_options(),
          new_objective<Mdlm>,
          {.sample_at_end = true, .likelihood = true}};
}

} // namespace dllm::noise
