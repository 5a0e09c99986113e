#include "decode/step/constrained_step.h"

#include "base/error.h"
#include "decode/request/constraint.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// Tries of a step before its predictions are completed, in addition to one for each prediction.
constexpr int64_t kMoreTries = 2;

// Makes `token` the only one that a policy can choose.
void choose_alone(Prediction& prediction, int32_t token, float probability) {
  prediction.token = prediction.argmax = token;
  prediction.probability = prediction.max_probability = probability;
  std::ranges::fill(prediction.top_ids, token);
  std::ranges::fill(prediction.top_probs, 0.0f);
  if (!prediction.top_probs.empty()) prediction.top_probs.front() = probability;
}

} // namespace

void ConstrainedStep::ban_refused(Slot& slot, const Task* task) {
  const Constraint* constraint = slot.request().settings.constraint.get();
  if (constraint == nullptr) return;
  slot.vetoes().emplace(*constraint, slot.method()->passes().banned, slot.method()->mask_id());
  slot.vetoes()->ban_refused(slot.request(), slot.pass().positions, passes_.workers(task));
  slot.set_bans(slot.vetoes()->at(slot.pass().positions));
}

void ConstrainedStep::check_predictions(Slot& slot, const Weights& weights, const Task* task) {
  if (!slot.vetoes()) return;
  predict_again(slot, slot.vetoes()->of_predictions(slot.request(), slot.predictions()), weights,
                task);
}

Trial ConstrainedStep::try_step(Slot& slot, const Weights& weights, const Task* task) {
  int64_t tries = std::ssize(slot.predictions()) + kMoreTries;
  for (;; --tries) {
    Trial trial = slot.try_step();
    // The tokens of a step that moves tokens were checked as predictions.
    if (!slot.vetoes() || trial.outcome.moved) return trial;
    const std::vector<int64_t> refused =
        slot.vetoes()->of_step(slot.request(), trial.request, slot.predictions());
    if (refused.empty()) {
      decide_left(slot, trial, weights, task);
      return trial;
    }
    if (tries < 0) {
      fail_with_hint("use a policy that writes what it draws, for example low_confidence",
                     Code::failed_precondition,
                     "the policy wrote token {} at position {}, which the constraint refuses",
                     trial.request.ids[static_cast<size_t>(refused[0])], refused[0]);
    }
    if (tries == 0)
      complete(slot, weights, task);
    else
      predict_again(slot, refused, weights, task);
  }
}

// Repeats the pass with the vetoes of these positions, and takes their predictions from it.
void ConstrainedStep::predict_again(Slot& slot, const std::vector<int64_t>& positions,
                                    const Weights& weights, const Task* task) {
  if (positions.empty()) return;
  // The input of a pass with conditioning names all of its positions.
  const bool has_rest = !slot.pass().conditioning.empty();
  const std::vector<int64_t> asked = has_rest ? slot.pass().positions : positions;
  std::vector<Prediction> again =
      passes_.repeat(slot, asked, slot.vetoes()->at(asked), weights, task);
  for (Prediction& own : slot.predictions()) {
    if (!std::ranges::binary_search(positions, own.position)) continue;
    own = std::move(*std::ranges::find(again, own.position, &Prediction::position));
  }
}

void ConstrainedStep::complete(Slot& slot, const Weights& weights, const Task* task) {
  Request canvas = slot.request();
  const int32_t mask_id = slot.method()->mask_id();
  for (Prediction& p : slot.predictions()) {
    const auto at = static_cast<size_t>(p.position);
    if (canvas.is_open(p.position)) continue;
    if (slot.vetoes()->allows(canvas, p.position, canvas.ids[at]))
      choose_alone(p, canvas.ids[at], canvas.confidence[at]);
    else // noise, which no constraint was asked about
      canvas.reopen(p.position, mask_id);
  }
  complete_open(slot, canvas, weights, task);
}

// Decides the predicted positions that a policy leaves open at the end of a block or of its steps.
// A text with holes would not match.
void ConstrainedStep::decide_left(Slot& slot, Trial& trial, const Weights& weights,
                                  const Task* task) {
  Outcome& outcome = trial.outcome;
  const bool is_over = !trial.request.active();
  if (!is_over && !outcome.block_ended) return;
  std::vector<int64_t> left, others;
  for (const Prediction& p : slot.predictions()) {
    const bool ended = is_over || (p.position >= outcome.begin && p.position < outcome.end);
    if (trial.request.is_open(p.position)) (ended ? left : others).push_back(p.position);
  }
  if (left.empty() || !others.empty()) return; // other blocks of the pass go on
  complete_open(slot, trial.request, weights, task);
  std::vector<int64_t>& decided = outcome.decided;
  decided.insert(decided.end(), left.begin(), left.end());
  std::ranges::sort(decided);
}

// Gives the open positions of `canvas` tokens that are allowed together, from left to right. Every
// pass decides the first position that is left.
void ConstrainedStep::complete_open(Slot& slot, Request& canvas, const Weights& weights,
                                    const Task* task) {
  const int32_t mask_id = slot.method()->mask_id();
  std::vector<Prediction>& all = slot.predictions();
  const auto fits = [&](const Prediction& p) {
    return p.token != mask_id && slot.vetoes()->allows(canvas, p.position, p.token);
  };
  for (size_t next = 0; next < all.size();) {
    Prediction& first = all[next];
    if (canvas.is_open(first.position) && !fits(first)) {
      std::vector<int64_t> refused;
      for (size_t i = next; i < all.size(); ++i) {
        if (!canvas.is_open(all[i].position) || fits(all[i])) continue;
        slot.vetoes()->ban(canvas, all[i].position, all[i].token);
        refused.push_back(all[i].position);
      }
      predict_again(slot, refused, weights, task);
    }
    if (canvas.is_open(first.position)) {
      choose_alone(first, first.token, first.probability);
      canvas.decide(first.position, first.token, first.probability);
    }
    ++next;
  }
}

void ConstrainedStep::check_tokens(const Slot& slot, std::span<const int64_t> positions,
                                   std::span<const int32_t> tokens) {
  const Constraint* constraint = slot.request().settings.constraint.get();
  if (constraint == nullptr) return;
  Request canvas = slot.request();
  for (size_t i = 0; i < positions.size(); ++i) {
    if (!constraint->allows(canvas, positions[i], tokens[i])) {
      fail_with_hint("statistics lists tokens that are allowed", Code::invalid_argument,
                     "the constraint of slot {} refuses token {} at position {}", slot.number(),
                     tokens[i], positions[i]);
    }
    canvas.decide(positions[i], tokens[i], 0);
  }
}

} // namespace dllm::decode
