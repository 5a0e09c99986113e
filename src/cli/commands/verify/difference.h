#pragma once
// These functions measure how much the predictions of two models differ, at each position and in
// summary.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::cli {

// The difference of the examined model from the reference at one position.
struct PositionDifference {
  double kl = 0;                     // KL(reference || model), nats
  double nll = 0, reference_nll = 0; // -log p of the token in the text, nats
  bool same_top = false;             // the most probable tokens are equal
  int shared_top = 0;                // tokens that are in the five most probable of both
};

// model, reference: logits of one position, equally many. target: id of the token in the text.
PositionDifference difference_of(std::span<const float> model, std::span<const float> reference,
                                 int32_t target);

// Returns {"positions", "kl": {"mean", "median", "p99", "max"}, "top1", "top5", "nll",
// "reference_nll", "change", "stderr", "perplexity", "reference_perplexity"}. top1 and top5 are
// fractions, change is nll - reference_nll, and stderr is the standard error of change over the
// positions. REQUIRES: at least one position.
nlohmann::ordered_json difference_summary(std::span<const PositionDifference> positions);

} // namespace dllm::cli
