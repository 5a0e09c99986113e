// nano/samplers: nano-dlm's re-corrupting and ancestral steps with every draw recorded. Arrays
// <case>.{trace i32(n+1, B, L), first_logits}; ddim: step_keys u32(n, 2), u_keep f32(n, B, L),
// u_gumbel f32(n, B, L, V) where stored; ancestral: u_reveal, p_unmask f32(n), u_gumbel.

#include "base/random.h"
#include "handlers/decoding/samplers.h"
#include "handlers/models/reference_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::parity {
namespace {

class Recorded final : public decode::RandomSource {
public:
  Tensor policy; // f32(steps, B, L)
  Tensor gumbel; // uniforms f32(steps, B, L, V); undefined: temperature 0

  float uniform(const decode::Request& slot, int64_t position, int word) const override {
    if (word != 1) return 0.5f; // tokens are drawn by noise
    return policy.as<float>()[at(slot, position)];
  }
  bool has_noise() const override { return gumbel.defined(); }
  void noise(const decode::Request& slot, int64_t position, std::span<float> dst) const override {
    const float* u = gumbel.as<float>().data() + at(slot, position) * dst.size();
    for (size_t v = 0; v < dst.size(); ++v) dst[v] = -std::log(-std::log(u[v] + 1e-10f) + 1e-10f);
  }

private:
  size_t at(const decode::Request& slot, int64_t position) const {
    const Shape& shape = policy.shape();
    return static_cast<size_t>((slot.steps * shape[1] + slot.number) * shape[2] + position);
  }
};

Key key_at(const Tensor& keys, int64_t step) {
  const auto words = keys.as<uint32_t>();
  return {words[static_cast<size_t>(2 * step)], words[static_cast<size_t>(2 * step + 1)]};
}

// The key of a step splits into that of the noise and that of what is kept.
Tensor gumbel_from_keys(Case& c, int64_t steps, const Tensor& first_logits) {
  const Shape& one = first_logits.shape(); // (B, L, V)
  Tensor made(DType::f32, {steps, one[0], one[1], one[2]});
  const auto count = static_cast<size_t>(first_logits.count());
  for (int64_t step = 0; step < steps; ++step) {
    const std::vector<Key> keys = split(key_at(c.array("step_keys"), step), 2);
    random_uniform(keys[0],
                   made.mutable_as<float>().subspan(static_cast<size_t>(step) * count, count));
    Tensor keep(DType::f32, {one[0], one[1]});
    random_uniform(keys[1], keep.mutable_as<float>());
    c.equal(keep, c.array("u_keep").row(step), fmt::format("u_keep of step {} from its key", step));
  }
  return made;
}

Options options_of(const Json& entry, int64_t steps) {
  Options options(decode::decoder_schema(entry.at("sampler").get<std::string>()));
  options.set_json(Json{{"steps", steps},
                        {"temperature", entry.at("temperature")},
                        {"schedule", "nano_" + entry.at("kind").get<std::string>()},
                        {"schedule_steps", entry.at("T")},
                        {"schedule_eps", entry.at("eps")},
                        {"gen_length", entry.at("length")},
                        {"max_length", entry.at("length")}, // past the model's own
                        {"suppress_mask", false}});
  return options;
}

// The chance to reveal from step to step, where it is recorded.
void compare_chances(Case& c, const Json& entry) {
  if (!c.has("p_unmask")) return;
  const noise::ScheduleRef schedule = nano_schedule(entry);
  const auto times = static_cast<double>(schedule->steps());
  Tensor made(DType::f32, c.array("p_unmask").shape());
  for (int64_t i = 0; i < made.count(); ++i) {
    const double t = times - static_cast<double>(i);
    made.mutable_as<float>()[static_cast<size_t>(i)] =
        static_cast<float>(1.0 - schedule->reverse_mask_prob((t - 1) / times, t / times));
  }
  // The reference's tables are float32: the ratio of two differences of nearly equal numbers.
  c.close({1e-5, 1e-3}, made, c.array("p_unmask"), "p_unmask");
}

} // namespace

void run_nano(Case& c, const Json& entry) {
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  const Tensor& trace = c.array("trace");
  const int64_t steps = trace.shape()[0] - 1, batch = trace.shape()[1];
  const int64_t length = trace.shape()[2];
  const bool ddim = entry.at("sampler") == "ddim";

  Batch first;
  first.set("ids", trace.row(0));
  if (model->config().time_conditioning) {
    first.set("timesteps",
              Tensor::from(Shape{batch}, std::vector<float>(static_cast<size_t>(batch),
                                                            entry.at("T").get<float>())));
  }
  c.close({c.topic().cases().value("atol_first_logits", 1e-4), 0},
          model::forward(*model, first, Options(model::forward_schema())).at("logits"),
          c.array("first_logits"), "first_logits");
  compare_chances(c, entry);

  const auto draws = std::make_shared<Recorded>();
  draws->policy = c.array(ddim ? "u_keep" : "u_reveal");
  if (entry.at("temperature").get<double>() > 0) {
    draws->gumbel = c.has("u_gumbel") ? c.array("u_gumbel")
                                      : gumbel_from_keys(c, steps, c.array("first_logits"));
  }
  decode::Decoder decoder(model, options_of(entry, steps));
  decoder.set_random_source(draws);
  for (int64_t b = 0; b < batch; ++b) decoder.add({}, {}, Options(decode::request_schema()));
  for (int64_t step = 0; step <= steps; ++step) {
    for (int64_t b = 0; b < batch; ++b) {
      const auto row = trace.row(step).as<int32_t>().subspan(static_cast<size_t>(b * length),
                                                             static_cast<size_t>(length));
      c.equal(text_of(decoder.request(b).ids), text_of({row.begin(), row.end()}),
              fmt::format("row {} after step {}", b, step));
    }
    bool active = false;
    for (int64_t b = 0; b < batch; ++b) active = active || decoder.request(b).active();
    if (active && step < steps) decoder.step();
  }
}

} // namespace dllm::parity
