#include "loss_checks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {

double norm_of(const Tensor& tensor) {
  double squares = 0;
  for (const float value : tensor.as<float>()) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

namespace {

float largest_of(const Tensor& tensor) {
  float largest = 0;
  for (const float value : tensor.as<float>()) largest = std::max(largest, std::abs(value));
  return largest;
}

// Of a gradient whose terms cancel, against the largest entry of all gradients.
constexpr float kRounding = 1e-3f;

} // namespace

void check_gradients(Case& c, const noise::LossGradients& got, const LossExpectation& want) {
  c.close({1e-6, want.relative_loss}, got.loss.mean(), want.loss, "loss");
  float largest_of_all = 0;
  for (const auto& [name, gradient] : got.gradients) {
    if (c.has("grad." + name))
      largest_of_all = std::max(largest_of_all, largest_of(c.array("grad." + name)));
  }
  double squares = 0;
  int64_t compared = 0;
  for (const auto& [name, gradient] : got.gradients) {
    squares += norm_of(gradient) * norm_of(gradient);
    if (!c.has("grad." + name)) continue;
    const Tensor& golden = c.array("grad." + name);
    ++compared;
    // A gradient that is zero but for rounding (a key's bias) is as far off as the others' rounding makes it.
    const float scale = std::max(largest_of(golden), kRounding * largest_of_all);
    c.close({want.gradient_absolute * scale, 0}, gradient, golden, "grad." + name);
  }
  c.equal(compared, c.count("grad."), "gradients compared");
  if (want.norm)
    c.close({1e-6, 10 * want.relative_loss}, std::sqrt(squares), *want.norm, "grad_norm");
}

void check_gradient_norms(Case& c, const noise::LossGradients& got, const Json& norms,
                          Tolerance tolerance) {
  int64_t seen = 0;
  for (const auto& [name, gradient] : got.gradients) {
    if (!norms.contains(name)) continue;
    ++seen;
    c.close(tolerance, norm_of(gradient), norms.at(name).get<double>(), "norm of grad " + name);
  }
  c.equal(seen, static_cast<int64_t>(norms.size()), "gradients with a golden norm");
}

void check_logits(Case& c, model::Model& model, const Batch& prepared, Tolerance tolerance,
                  const std::string& compat, bool causal) {
  if (!c.has("logits")) return;
  Batch batch;
  for (const char* name : {"ids", "keys", "mask", "positions", "timesteps"}) {
    if (const Tensor* array = prepared.find(name)) batch.set(name, *array);
  }
  if (!model.config().time_conditioning) batch.remove("timesteps");
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", causal ? "causal" : "bidirectional"},
                        {"shift", 0},
                        {"empty_average", compat == "dllm-jax"}});
  const Tensor logits = model::forward(model, batch, options).at("logits");
  // Two-stream cases hold more columns than the loss reads; ours have the columns of the batch.
  c.close(tolerance, logits, c.array("logits"), "logits");
}

} // namespace dllm::parity
