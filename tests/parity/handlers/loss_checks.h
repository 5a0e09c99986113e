#pragma once
// Comparisons that the handlers of losses share.

#include "model/model.h"
#include "noise/evaluate.h"
#include "runner.h"

#include <optional>

namespace dllm::parity {

struct LossExpectation {
  double relative_loss = 0;     // tolerance of loss and norm
  double gradient_absolute = 0; // times max(1, largest entry)
  double loss = 0;
  std::optional<double> norm; // global 2-norm
};
// loss, global norm and every array "grad.<tensor>" that the case holds.
void check_gradients(Case& c, const noise::LossGradients& got, const LossExpectation& want);
// "grad_norms": {tensor: 2-norm}.
void check_gradient_norms(Case& c, const noise::LossGradients& got, const Json& norms,
                          Tolerance tolerance);
// Array "logits" of the case, unshifted and bidirectional unless causal.
void check_logits(Case& c, model::Model& model, const Batch& prepared, Tolerance tolerance,
                  const std::string& compat, bool causal = false);

double norm_of(const Tensor& tensor);

} // namespace dllm::parity
