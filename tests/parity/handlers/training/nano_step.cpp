// nano/noise, ddim.*: one re-corrupting step per row, logits given. Arrays xt, x_next i32(B, L),
// t, t_next i32(B), logits, u_gumbel f32(B, L, V), u_keep f32(B, L), key u32(2), which splits into
// those of the two.

#include "base/random.h"
#include "decode/request/policy.h"
#include "handlers/decoding/samplers.h"
#include "handlers/models/reference_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {
namespace {

class Kept final : public decode::RandomSource {
public:
  explicit Kept(std::span<const float> row) : row_(row) {}
  float uniform(const decode::Request&, int64_t position, int) const override {
    return row_[static_cast<size_t>(position)];
  }

private:
  std::span<const float> row_;
};

// argmax of logits / temperature + Gumbel noise.
decode::Prediction propose(std::span<const float> logits, std::span<const float> uniforms,
                           float temperature, int64_t position) {
  decode::Prediction p;
  p.position = position;
  float best = -INFINITY;
  for (size_t v = 0; v < logits.size(); ++v) {
    const float score =
        logits[v] / temperature - std::log(-std::log(uniforms[v] + 1e-10f) + 1e-10f);
    if (score > best) best = score, p.token = static_cast<int32_t>(v);
  }
  return p;
}

void compare_draws(Case& c) {
  const auto words = c.array("key").as<uint32_t>();
  const std::vector<Key> keys = split(Key{words[0], words[1]}, 2);
  Tensor gumbel(DType::f32, c.array("u_gumbel").shape()),
      keep(DType::f32, c.array("u_keep").shape());
  random_uniform(keys[0], gumbel.mutable_as<float>());
  random_uniform(keys[1], keep.mutable_as<float>());
  c.equal(gumbel, c.array("u_gumbel"), "u_gumbel from the key");
  c.equal(keep, c.array("u_keep"), "u_keep from the key");
}

} // namespace

void run_nano_step(Case& c, const Json& entry) {
  compare_draws(c);
  const auto mask = entry.at("mask_token_id").get<int32_t>();
  const auto times = entry.at("T").get<int64_t>();
  const noise::ScheduleRef schedule = nano_schedule(entry);
  Options options(decode::decoder_schema("ddim"));
  options.set_i64("steps", times);
  const model::ModelConfig config;
  const auto policy = decode::make_policy("ddim", {options, *schedule, config, mask, {}, 0});
  const Shape shape = c.array("xt").shape();
  const auto vocab = static_cast<size_t>(c.array("logits").shape()[2]);
  for (int64_t b = 0; b < shape[0]; ++b) {
    const Tensor xt = c.array("xt").row(b), logits = c.array("logits").row(b),
                 gumbel = c.array("u_gumbel").row(b), keep = c.array("u_keep").row(b);
    const Kept draws(keep.as<float>());
    decode::Request slot;
    slot.random_source = &draws;
    slot.ids.assign(static_cast<size_t>(shape[1]), mask);
    slot.states.assign(slot.ids.size(), decode::State::masked);
    slot.confidence.assign(slot.ids.size(), 0.0f);
    const auto session = policy->begin(slot);
    for (int64_t i = 0; i < shape[1]; ++i) {
      const int32_t id = xt.as<int32_t>()[static_cast<size_t>(i)];
      if (id != mask) slot.decide(i, id, 1, decode::State::provisional);
    }
    // The step before the one that begins at t_next.
    const double next =
        static_cast<double>(c.array("t_next").as<int32_t>()[static_cast<size_t>(b)]) /
        static_cast<double>(times);
    slot.step_in_block = times - 1;
    for (int64_t step = 1; step < times && next > 0; ++step) {
      slot.step_in_block = step;
      if (session->next_pass(slot, {}).time == next) break;
    }
    if (next > 0) --slot.step_in_block;
    const decode::PassRequest ask = session->next_pass(slot, {});
    std::vector<decode::Prediction> predictions;
    for (const int64_t position : ask.positions) {
      const auto at = static_cast<size_t>(position) * vocab;
      predictions.push_back(propose(logits.as<float>().subspan(at, vocab),
                                    gumbel.as<float>().subspan(at, vocab),
                                    entry.at("temperature").get<float>(), position));
    }
    session->apply(slot, ask, predictions);
    const Tensor want = c.array("x_next").row(b);
    c.equal(text_of(slot.ids), text_of({want.as<int32_t>().begin(), want.as<int32_t>().end()}),
            fmt::format("x_next of row {}", b));
  }
}

} // namespace dllm::parity
