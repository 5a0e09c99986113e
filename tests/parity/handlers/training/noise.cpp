// nano/noise: one-step corruption with its uniforms, its exact posterior, and the batches of the
// loops.

#include "base/error.h"
#include "handlers.h"
#include "handlers/decoding/samplers.h"
#include "handlers/models/reference_names.h"
#include "model/model.h"
#include "noise/loss/evaluate.h"
#include "runner.h"

#include <nlohmann/json.hpp>

namespace dllm::parity {
namespace {

noise::ObjectiveRef nano_objective(const Json& entry, int64_t mask_id) {
  Options options(noise::objective_schema("nano"));
  options.set_str("compat", "nano");
  options.set_i64("shift", 0);
  if (mask_id >= 0) options.set_i64("mask_id", mask_id);
  return noise::make_objective("nano", nano_schedule(entry), options);
}

// x0, t, u_keep -> xt; then p_unmask from t to t - 1 and x_prev, which takes x0 where u < p.
void run_step(Case& c, const Json& entry) {
  const int64_t mask = entry.at("mask_token_id").get<int64_t>();
  const noise::ObjectiveRef objective = nano_objective(entry, mask);
  Batch raw;
  raw.set("ids", c.array("x0"));
  raw.set("u_mask", c.array("u_keep"));
  raw.set("timesteps", c.array("t"));
  noise::PrepareContext context;
  context.mask_id = mask;
  const Batch prepared = objective->prepare(raw, 0, 0, context);
  c.equal(prepared.at("ids"), c.array("xt"), "xt");

  const auto t = c.array("t").as<int32_t>();
  const auto steps = static_cast<double>(objective->schedule()->steps());
  const int64_t seq = c.array("x0").shape()[1];
  Tensor unmask(DType::f32, {static_cast<int64_t>(t.size()), 1});
  Tensor previous = c.array("xt").clone();
  for (size_t b = 0; b < t.size(); ++b) {
    const double later = t[b] / steps, earlier = (t[b] - 1) / steps;
    const auto p =
        static_cast<float>(1.0 - objective->schedule()->reverse_mask_prob(earlier, later));
    unmask.mutable_as<float>()[b] = p;
    for (int64_t i = 0; i < seq; ++i) {
      const auto at = b * static_cast<size_t>(seq) + static_cast<size_t>(i);
      const bool shown =
          previous.as<int32_t>()[at] == mask && c.array("posterior.u").as<float>()[at] < p;
      if (shown) previous.mutable_as<int32_t>()[at] = c.array("x0").as<int32_t>()[at];
    }
  }
  // The reference's tables are float32: the ratio of two differences of nearly equal numbers.
  c.close({1e-5, 1e-3}, unmask, c.array("posterior.p_unmask"), "posterior.p_unmask");
  c.equal(previous, c.array("posterior.x_prev"), "posterior.x_prev");
}

// The batches that a loop prepares from its running key, and their losses.
void run_batches(Case& c, const Json& entry) {
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  const noise::ObjectiveRef objective = nano_objective(entry, -1);
  const noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  noise::LossRunner runner(model, objective);
  const double relative = c.topic().cases().value("loss_rtol", 5e-5);
  for (int64_t i = 0; i < entry.at("batches").get<int64_t>(); ++i) {
    const std::string at = std::to_string(i) + ".";
    Batch raw;
    raw.set("ids", c.array(at + "x0"));
    const Batch prepared = objective->prepare(raw, entry.at("seed").get<uint64_t>(), i, context);
    c.equal(prepared.at("timesteps").to(DType::i32), c.array(at + "timesteps"), at + "timesteps");
    c.equal(prepared.at("ids"), c.array(at + "xt"), at + "xt");
    c.close({1e-6, relative}, runner.run(prepared, 0, 0, nullptr).mean(),
            c.array(at + "loss").as<float>()[0], at + "loss");
  }
}

} // namespace

void run_noise(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    const std::string name = entry.at("name").get<std::string>();
    topic.run(entry, [&](Case& c) {
      if (name.starts_with("step."))
        run_step(c, entry);
      else if (entry.contains("batches"))
        run_batches(c, entry);
      else
        run_nano_step(c, entry);
    });
  }
}

} // namespace dllm::parity
