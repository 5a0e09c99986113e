// nano/loss: the training loss of given corrupted ids, and its gradient.

#include "base/error.h"
#include "handlers.h"
#include "handlers/models/reference_names.h"
#include "handlers/training/loss_checks.h"
#include "model/model.h"
#include "noise/loss/evaluate.h"
#include "runner.h"

#include <nlohmann/json.hpp>

namespace dllm::parity {
namespace {

// nano-dlm, src/training.py: an id that equals the mask token counts, whatever the clean id is.
Batch prepared_batch(Case& c, const Json& entry, const noise::Schedule& schedule, int32_t mask) {
  const Tensor& ids = c.array("input_ids");
  const Tensor& labels = c.array("labels");
  const Tensor& times = c.array("timesteps");
  const int64_t rows = ids.shape()[0], seq = ids.shape()[1];
  Tensor targets(DType::i32, ids.shape()), weights(DType::f32, ids.shape()),
      normalizer(DType::f32, {rows});
  Tensor row_weights(DType::f32, {rows});
  int64_t masked = 0;
  for (int64_t b = 0; b < rows; ++b) {
    const auto row = static_cast<size_t>(b);
    const double t = times.as<int32_t>()[row] / static_cast<double>(schedule.steps());
    const bool ones = entry.at("weight") == "one";
    row_weights.mutable_as<float>()[row] = ones ? 1.0f : static_cast<float>(schedule.weight(t));
    for (int64_t i = 0; i < seq; ++i) {
      const auto at = static_cast<size_t>(b * seq + i);
      const bool hit = ids.as<int32_t>()[at] == mask;
      targets.mutable_as<int32_t>()[at] = hit ? labels.as<int32_t>()[at] : -1;
      weights.mutable_as<float>()[at] = row_weights.as<float>()[row];
      normalizer.mutable_as<float>()[row] += hit ? 1.0f : 0.0f;
      masked += hit ? 1 : 0;
    }
  }
  c.equal(masked, entry.at("masked").get<int64_t>(), "masked");
  c.close({1e-6, 1e-3}, row_weights, c.array("weights"), "weights");
  Batch made;
  made.set("ids", ids);
  made.set("targets", targets);
  made.set("weights", weights);
  made.set("normalizer", normalizer);
  made.set("timesteps", times.to(DType::f32));
  return made;
}

void run_loss_case(Case& c, const Json& entry) {
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  const noise::ScheduleRef schedule = nano_schedule(entry);
  Options options(noise::objective_schema("token_ce"));
  options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
  const noise::ObjectiveRef objective = noise::make_objective("token_ce", schedule, options);
  const auto mask = static_cast<int32_t>(model->config().mask_token_id);
  const Batch prepared = prepared_batch(c, entry, *schedule, mask);
  const noise::LossGradients got = noise::loss_gradients(*model, *objective, prepared);
  const double gradient = c.topic().cases().value("grad_atol_relative_to_largest_entry", 5e-5);
  const double relative = c.topic().cases().value("loss_rtol", 5e-5);
  check_gradients(
      c, got,
      {relative, gradient, entry.at("loss").get<double>(), c.array("grad_norm").as<float>()[0]});
  if (entry.contains("gradient_norms"))
    check_gradient_norms(c, got, entry.at("gradient_norms"), {1e-5, 1e-3});
}

} // namespace

void run_loss(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) { run_loss_case(c, entry); });
  }
}

} // namespace dllm::parity
