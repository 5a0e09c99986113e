#pragma once
// How far the predictions of two models are apart: figures of positions, and their summary.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::cli {

// One position: the model that is examined next to the reference.
struct PositionDifference {
  double kl = 0;                     // KL(reference || model), nats
  double nll = 0, reference_nll = 0; // of the text's own token, nats
  bool same_top = false;             // both find the same token the most probable
  int shared_top = 0;                // of the five most probable of each, so many are the same
};

// Logits of one position, as many of both; target: the text's own token.
PositionDifference difference_of(std::span<const float> model, std::span<const float> reference,
                                 int32_t target);

// {"positions", "kl": {"mean", "median", "p99", "max"}, "top1", "top5" (shares), "nll", "reference_nll", "change" (nll less
// reference_nll), "stderr" (of change, from the differences of the positions), "perplexity", "reference_perplexity"}.
// At least one position.
nlohmann::ordered_json difference_summary(std::span<const PositionDifference> positions);

} // namespace dllm::cli
