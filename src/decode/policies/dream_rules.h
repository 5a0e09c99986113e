#pragma once
// The rules of policy dream: Dream's and Open-dLLM's loops differ in how a step chooses alone.

#include "decode/policies/factories.h"

#include <string>

namespace dllm::decode {

struct DreamSettings {
  std::string alg;
  double alg_temp = 0;
  float eps = 1e-3f;
  bool schedule = false; // counts come from the noise schedule, not from the times
  bool last_step = true; // decides all that is left
};

// t of step `step`: times fall evenly from 1 to eps, step == steps is eps. In single precision, as
// the sources' counts are.
float dream_time(int64_t step, int64_t steps, float eps);

// origin, maskgit_plus, topk_margin, entropy.
std::unique_ptr<Rule> make_dream_rule(const DreamSettings& settings);
// Path planning (P2, Peng et al. 2025, self-planning): predicts every position that was not given,
// keeps the surest (step + 1) / steps of them, masks the others again.
std::unique_ptr<Rule> make_p2_rule();

} // namespace dllm::decode
