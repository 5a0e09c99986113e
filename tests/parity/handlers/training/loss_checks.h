#pragma once
// Comparisons that the handlers of losses share.

#include "model/model.h"
#include "noise/loss/evaluate.h"
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
// Unshifted logits of the prepared rows, where the case holds them.
struct LogitsForm {
  std::string attention = "bidirectional";
  int64_t block_length = 0;
  bool empty_average = false;
  std::string array = "logits";
};
void check_logits(Case& c, model::Model& model, const Batch& prepared, Tolerance tolerance,
                  const LogitsForm& form);

// The CART weights (Dream) of a 0/1 array (batch, seq), through an objective whose noise is that
// array.
void check_cart(Case& c, double geo_p, const Tensor& masked, const Tensor& weights,
                Tolerance tolerance);

// An array of what block_causal and two_stream ("two_stream" or "twostream" in its name) let a
// query see.
void check_mask(Case& c, const std::string& array, int32_t length, int32_t block);
// What block_causal lets rows with padding in front see.
void check_left_padded(Case& c, const Json& entry);

double norm_of(const Tensor& tensor);

} // namespace dllm::parity
