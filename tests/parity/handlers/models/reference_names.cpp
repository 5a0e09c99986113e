#include "handlers/models/reference_names.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {

noise::ScheduleRef reference_schedule(const std::string& class_name, const Json& parameters,
                                      const std::string& compat) {
  static const std::map<std::string, std::string> names = {
      {"LinearAlphaScheduler", "linear"},       {"CosineAlphaScheduler", "cosine"},
      {"LinearKappaScheduler", "kappa_linear"}, {"CubicKappaScheduler", "kappa_cubic"},
      {"CosineKappaScheduler", "kappa_cosine"},
  };
  const auto found = names.find(class_name);
  if (found == names.end())
    fail(Code::unimplemented, "schedule {} is not supported yet", class_name);
  Options options(noise::schedule_schema(found->second));
  options.set_str("compat", compat);
  for (const char* key : {"a", "b"}) {
    if (parameters.contains(key)) options.set_f64(key, parameters.at(key).get<double>());
  }
  return noise::make_schedule(found->second, options);
}

noise::ScheduleRef nano_schedule(const Json& entry) {
  const std::string name = "nano_" + entry.at("kind").get<std::string>();
  Options options(noise::schedule_schema(name));
  options.set_i64("steps", entry.at("T").get<int64_t>());
  options.set_f64("eps", entry.at("eps").get<double>());
  return noise::make_schedule(name, options);
}

noise::ObjectiveRef reference_objective(const std::string& name, const Json& settings,
                                        const std::string& compat) {
  Options options(noise::objective_schema(name));
  std::string weight = settings.at("loss_weight_type").get<std::string>();
  if (weight.starts_with("cart[geo_p:")) {
    options.set_f64("geo_p", std::stod(weight.substr(weight.find(':') + 1)));
    weight = "cart";
  }
  options.set_str("loss_weight", weight == "uniform" ? "ones" : weight);
  options.set_str("loss_norm", settings.at("loss_norm_type").get<std::string>());
  options.set_f64("time_epsilon", settings.value("time_epsilon", 1e-3));
  options.set_i64("shift", settings.at("right_shift_logits").get<bool>() ? 1 : 0);
  options.set_i64("mask_id", settings.at("mask_id").get<int64_t>());
  options.set_i64("block_length", settings.value("block_size", int64_t{0}));
  options.set_str("compat", compat);
  const noise::ScheduleRef schedule =
      reference_schedule(settings.at("scheduler").get<std::string>(), settings, compat);
  return noise::make_objective(name, schedule, options);
}

noise::ObjectiveRef reference_dmax(const Json& settings, const std::string& compat) {
  Options options(noise::objective_schema("dmax"));
  options.set_f64("noise_low", settings.at("noise_range_low").get<double>());
  options.set_f64("noise_high", settings.at("noise_range_high").get<double>());
  options.set_f64("on_policy", settings.at("on_policy_ratio").get<double>());
  options.set_str("loss_norm", settings.at("loss_norm_type").get<std::string>());
  options.set_i64("block_length", settings.at("block_size").get<int64_t>());
  options.set_i64("mask_id", settings.at("mask_id").get<int64_t>());
  options.set_i64("shift", 0);
  options.set_str("compat", compat);
  return noise::make_objective("dmax", nullptr, options);
}

Tensor first_columns(const Tensor& rows, int64_t columns) {
  const int64_t batch = rows.shape()[0];
  Tensor made(rows.dtype(), rows.shape().with_dim(1, columns));
  if (batch == 0) return made;
  const int64_t width = made.byte_size() / batch, step = rows.byte_size() / batch;
  for (int64_t b = 0; b < batch; ++b)
    std::copy_n(rows.bytes() + b * step, width, made.mutable_bytes() + b * width);
  return made;
}

void set_padding(Batch& batch, const Tensor& mask, bool jax_square) {
  const Tensor bytes = mask.to(DType::u8);
  const int64_t rows = bytes.shape()[0], seq = bytes.shape()[1];
  if (!jax_square || rows != seq) {
    batch.set("keys", bytes);
    return;
  }
  Tensor square(DType::u8, {rows, seq, seq});
  for (int64_t b = 0; b < rows; ++b) {
    std::ranges::copy(bytes.as<uint8_t>(), square.mutable_as<uint8_t>().begin() + b * seq * seq);
  }
  batch.set("mask", square);
}

} // namespace dllm::parity
