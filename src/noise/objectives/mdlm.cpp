// Masked diffusion (Sahoo et al. 2024, MDLM; Nie et al. 2025, LLaDA). Each row has a time, and
// every trainable token is masked with probability 1 - alpha(t). The loss on masked tokens has the
// weight -alpha' / (1 - alpha). The token norm divides by the trainable tokens, masked or not; the
// loss is then the NELBO per token.

#include "noise/objectives/masked.h"

namespace dllm::noise {
namespace {

class Mdlm final : public MaskedDiffusion {
public:
  Mdlm(ScheduleRef schedule, const Options& options)
      : MaskedDiffusion("mdlm", std::move(schedule), options, TrajectoryMasks(options)) {}
  bool bounds_likelihood() const override { return is_nelbo(); }
};

} // namespace

ObjectiveEntry objective_files::mdlm() {
  return {"mdlm",
          "linear",
          masked_row_options(),
          new_objective<Mdlm>,
          {.sample_at_end = true, .likelihood = true}};
}

} // namespace dllm::noise
