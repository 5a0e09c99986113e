#include "handlers/training/loss_checks.h"

#include "handlers/models/reference_names.h"

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
    // A gradient that is zero but for rounding (a key's bias) is as far off as the others' rounding
    // makes it.
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
                  const LogitsForm& form) {
  if (!c.has(form.array)) return;
  Batch batch;
  for (const char* name : {"ids", "keys", "mask", "positions", "timesteps"}) {
    if (const Tensor* array = prepared.find(name)) batch.set(name, *array);
  }
  if (!model.config().time_conditioning) batch.remove("timesteps");
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", form.attention},
                        {"shift", 0},
                        {"empty_average", form.empty_average},
                        {"block_length", form.block_length}});
  const Tensor logits = model::forward(model, batch, options).at("logits");
  const Tensor& golden = c.array(form.array);
  // Of two streams some cases hold the noised half alone.
  c.close(tolerance, first_columns(logits, golden.shape()[1]), golden, form.array);
}

void check_cart(Case& c, double geo_p, const Tensor& masked, const Tensor& weights,
                Tolerance tolerance) {
  Options options(noise::objective_schema("dream"));
  options.set_json(Json{{"geo_p", geo_p}, {"shift", 0}, {"compat", "dllm"}});
  Tensor uniform(DType::f32, masked.shape()), times(DType::f32, {masked.shape()[0]});
  for (size_t i = 0; i < uniform.mutable_as<float>().size(); ++i)
    uniform.mutable_as<float>()[i] = masked.as<int32_t>()[i] != 0 ? 0.0f : 1.0f;
  std::ranges::fill(times.mutable_as<float>(), 0.5f);
  Batch raw;
  raw.set("ids", Tensor(DType::i32, masked.shape()));
  raw.set("u_mask", uniform);
  raw.set("t", times);
  noise::PrepareContext context;
  context.mask_id = 1;
  const noise::ObjectiveRef dream = noise::make_objective("dream", nullptr, options);
  c.close(tolerance, dream->prepare(raw, 0, 0, context).at("weights"), weights, "weights");
}

} // namespace dllm::parity
