// decoding_misc, select.*: arrays logits f32(1, L, V), x, mask, x0 and one 0/1 array per rule, all
// i32(1, L). credit.*: logits f32(S, L, V), trace i32(S+1, L). Sessions of our policies get the
// predictions these logits make.

#include "handlers/decoding/decoding_rules.h"

#include "decode/request/blockwise.h"
#include "decode/request/policy.h"
#include "handlers/decoding/sampler_case.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dllm::parity {
namespace {

decode::Prediction predict(std::span<const float> logits, int64_t position, int64_t top) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - most));
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  order.resize(std::min(order.size(), static_cast<size_t>(top)));
  decode::Prediction p;
  p.position = position;
  p.top_ids = order;
  for (const int32_t id : order)
    p.top_probs.push_back(
        static_cast<float>(std::exp(static_cast<double>(logit(id) - most)) / sum));
  p.token = p.argmax = order[0];
  p.probability = p.max_probability = p.top_probs[0];
  return p;
}

// One block under one policy, without a model.
class Bench {
public:
  Bench(const std::string& policy, const Json& own, std::span<const int32_t> ids,
        const std::vector<uint8_t>& open, int32_t mask)
      : options_(decode::decoder_schema(policy)), schedule_(noise::make_schedule("linear")) {
    options_.set_json(own);
    for (size_t i = 0; i < ids.size(); ++i) {
      slot.ids.push_back(ids[i]);
      slot.states.push_back(open[i] != 0 ? decode::State::masked : decode::State::fixed);
      slot.confidence.push_back(0);
    }
    policy_ = decode::make_policy(policy, {options_, *schedule_, config_, mask, {}, 0});
    session_ = policy_->begin(slot);
  }

  void step(const Tensor& logits) { // (L, V)
    const auto vocab = static_cast<size_t>(logits.shape()[1]);
    const decode::PassRequest ask = session_->next_pass(slot, {});
    std::vector<decode::Prediction> predictions;
    for (const int64_t position : ask.positions) {
      predictions.push_back(
          predict(logits.as<float>().subspan(static_cast<size_t>(position) * vocab, vocab),
                  position, policy_->needs().top));
    }
    session_->apply(slot, ask, predictions);
    ++slot.steps;
  }

  decode::Request slot;

private:
  Options options_;
  noise::ScheduleRef schedule_;
  model::ModelConfig config_;
  std::unique_ptr<decode::Policy> policy_;
  std::unique_ptr<decode::Session> session_;
};

struct UnmaskingRule {
  const char* array;
  const char* policy;
  Json options;
};

} // namespace

void run_select(Case& c, const Json& entry) {
  const auto x = c.array("x").as<int32_t>(), mask = c.array("mask").as<int32_t>();
  const std::vector<uint8_t> open(mask.begin(), mask.end());
  const auto masked = std::find(mask.begin(), mask.end(), 1);
  if (masked == mask.end()) c.skip("nothing is masked");
  const int32_t mask_id = x[static_cast<size_t>(masked - mask.begin())];
  const Json threshold = entry.at("threshold"), low = entry.at("low_threshold");
  const std::vector<UnmaskingRule> rules = {
      {"threshold", "threshold", {{"threshold", threshold}, {"ties", "near_best"}}},
      {"topk_threshold", "threshold", {{"threshold", threshold}}},
      {"factor", "factor", {{"factor", entry.at("factor")}, {"ranks", "scan"}}},
      {"hierarchy", "hierarchy", {{"threshold", threshold}, {"low_threshold", low}}},
      {"hierarchy_v2", "hierarchy", {{"threshold", threshold}, {"low_threshold", low}}},
  };
  for (const UnmaskingRule& rule : rules) {
    if (!c.has(rule.array)) continue;
    Bench bench(rule.policy, rule.options, x, open, mask_id);
    bench.step(c.array("logits").row(0));
    Ids decided, tokens;
    for (size_t i = 0; i < open.size(); ++i) {
      decided.push_back(bench.slot.states[i] == decode::State::final ? 1 : 0);
      if (decided.back() != 0) c.equal(bench.slot.ids[i], c.array("x0").as<int32_t>()[i], "x0");
    }
    const auto want = c.array(rule.array).as<int32_t>();
    c.equal(text_of(decided), text_of({want.begin(), want.end()}), rule.array);
  }
  for (const std::string& name : c.names("quota")) { // "quota3": the 3 best
    const int64_t count = std::stoll(name.substr(std::string_view("quota").size()));
    const Tensor logits = c.array("logits").row(0);
    const auto vocab = static_cast<size_t>(logits.shape()[1]);
    std::vector<double> scores;
    for (size_t i = 0; i < open.size(); ++i) {
      const auto row = logits.as<float>().subspan(i * vocab, vocab);
      scores.push_back(open[i] != 0 ? predict(row, 0, 1).probability : -1.0);
    }
    Ids decided(open.size(), 0);
    for (const size_t i : decode::largest(scores, count)) decided[i] = open[i];
    const auto want = c.array(name).as<int32_t>();
    c.equal(text_of(decided), text_of({want.begin(), want.end()}), name);
  }
}

void run_credit(Case& c, const Json& entry) {
  const Tensor& trace = c.array("trace");
  const auto mask = entry.at("mask_id").get<int32_t>();
  const auto row = [&](int64_t step) {
    const Tensor one = trace.row(step);
    return Ids(one.as<int32_t>().begin(), one.as<int32_t>().end());
  };
  const Ids first = row(0);
  std::vector<uint8_t> open;
  for (const int32_t id : first) open.push_back(id == mask ? 1 : 0);
  Json own;
  for (const char* key : {"threshold", "credit_alpha", "boost_gamma", "decay_beta"})
    own[key] = entry.at(key);
  Bench bench("credit", own, first, open, mask);
  for (int64_t step = 0; step + 1 < trace.shape()[0]; ++step) {
    if (bench.slot.active()) bench.step(c.array("logits").row(step));
    c.equal(text_of(bench.slot.ids), text_of(row(step + 1)), fmt::format("canvas {}", step + 1));
  }
}

} // namespace dllm::parity
