#pragma once
// One request under one policy without a model: a test sets the predictions.

#include "decode/request/policy.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::decode {

constexpr int32_t kToyMask = 99;

// Predictions of one position, with the slot as it is.
using Oracle = std::function<Prediction(const Request& slot, int64_t position)>;

class Bench {
public:
  Bench(const std::string& policy, int64_t length, const Json& own = Json::object(),
        uint64_t seed = 0, const RandomSource* draws = nullptr)
      : options_(decoder_schema(policy)) {
    options_.set_json(own);
    config_.vocab_size = kToyMask + 1;
    schedule_ = noise::make_schedule(options_.str("schedule"));
    slot.ids.assign(static_cast<size_t>(length), kToyMask);
    slot.states.assign(static_cast<size_t>(length), State::masked);
    slot.confidence.assign(static_cast<size_t>(length), 0.0f);
    slot.settings.seed = seed;
    slot.settings.temperature = static_cast<float>(options_.f64("temperature"));
    slot.random_source = draws;
    policy_ = make_policy(policy, {options_, *schedule_, config_, kToyMask, {}, 0});
    session_ = policy_->begin(slot);
  }

  PassRequest next_pass() const { return session_->next_pass(slot, {}); }

  // Returns the positions that were decided and stayed so.
  std::vector<int64_t> step(const Oracle& oracle) {
    const PassRequest asked = next_pass();
    std::vector<Prediction> predictions;
    for (const int64_t position : asked.positions) predictions.push_back(oracle(slot, position));
    const std::vector<int64_t> decided = session_->apply(slot, asked, predictions).decided;
    ++slot.steps; // as the decoder counts
    slot.decided += static_cast<int64_t>(decided.size());
    return decided;
  }
  void run(const Oracle& oracle) {
    while (slot.active()) step(oracle);
  }
  int64_t open() const { return slot.open_count(0, slot.length()); }

  Request slot;

private:
  Options options_;
  noise::ScheduleRef schedule_;
  model::ModelConfig config_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Session> session_;
};

// Token 1 everywhere, as probable as the position's number.
inline Oracle probabilities(std::vector<double> by_position) {
  return [=](const Request&, int64_t position) {
    Prediction p;
    p.position = position;
    p.token = p.argmax = 1;
    p.probability = p.max_probability = p.shaped_probability =
        static_cast<float>(by_position[static_cast<size_t>(position)]);
    p.top_ids = {1};
    p.top_probs = {p.probability};
    return p;
  };
}

} // namespace dllm::decode
