// Steps of requests with a constraint. Positions whose token is refused are predicted again without
// that token, until the policy writes no refused token.

#include "base/error.h"
#include "decode/decoder/decoder.h"

#include <algorithm>

namespace dllm::decode {

// Checks the predictions of a request and replaces the refused ones.
void Decoder::constrain(Entry& entry, const Weights& weights, const Task* task) {
  const Constraint* constraint = entry.request.settings.constraint.get();
  if (constraint == nullptr) return;
  entry.vetoes.emplace(*constraint, entry.method->passes().banned, entry.method->mask_id());
  predict_again(entry, entry.vetoes->of_predictions(entry.request, entry.predictions), weights,
                task);
}

Decoder::Trial Decoder::constrained_step(Entry& entry, const Weights& weights, const Task* task) {
  for (;;) {
    Trial trial = try_step(entry);
    if (!entry.vetoes) return trial;
    const std::vector<int64_t> refused =
        entry.vetoes->of_step(entry.request, trial.request, entry.predictions);
    if (refused.empty()) return trial;
    predict_again(entry, refused, weights, task);
  }
}

// Repeats the pass for every group of positions with the same bans, and takes only the predictions
// of these positions from it.
void Decoder::predict_again(Entry& entry, std::span<const int64_t> positions,
                            const Weights& weights, const Task* task) {
  std::vector<int64_t> refused(positions.begin(), positions.end());
  while (!refused.empty()) {
    for (const Vetoes::Group& group : entry.vetoes->groups(refused)) {
      PassSettings settings = entry.method->passes();
      settings.banned = group.banned;
      const PassRow row{&entry.request, &entry.pass, entry.cache_row.number()};
      const RowAnswer answer =
          program_.run({&row, 1}, settings, state_, weights, capacity_, task).front();
      ++launches_, ++round_trips_;
      ++entry.request.launches, ++entry.request.round_trips;
      if (answer.failure != nullptr) throw Error(*answer.failure);
      for (size_t i = 0; i < answer.predictions.size(); ++i) {
        if (std::ranges::binary_search(group.positions, answer.predictions[i].position))
          entry.predictions[i] = answer.predictions[i];
      }
    }
    refused = entry.vetoes->of_predictions(entry.request, entry.predictions);
  }
}

// Fails if the constraint refuses one of the tokens that the host chose.
void Decoder::check_tokens(const Entry& entry, std::span<const int64_t> positions,
                           std::span<const int32_t> tokens) {
  const Constraint* constraint = entry.request.settings.constraint.get();
  if (constraint == nullptr) return;
  Request canvas = entry.request;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (!constraint->allows(canvas, positions[i], tokens[i])) {
      fail_with_hint("statistics lists tokens that are allowed", Code::invalid_argument,
                     "the constraint of slot {} refuses token {} at position {}",
                     entry.request.number, tokens[i], positions[i]);
    }
    canvas.decide(positions[i], tokens[i], 0);
  }
}

} // namespace dllm::decode
