#include "model/config.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dllm::model {
namespace {

constexpr double kMaxFactor = 1e6;

// Divides frequencies (Llama 3.1). Short wavelengths stay, long ones are divided, and a ramp
// connects the two.
double llama3_frequency(double frequency, const RopeConfig& rope, double original) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

// YaRN (Peng et al. 2023, eq. 17 and 18, 23). Dimensions that rotate often keep their frequency,
// slow ones are interpolated.
void apply_yarn(std::vector<double>& frequencies, const RopeConfig& rope, double original) {
  const double size = 2.0 * static_cast<double>(frequencies.size());
  const auto correction = [&](double turns) {
    return size * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double low = correction(rope.beta_fast), high = correction(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / rope.factor * ramp + frequencies[i] * (1 - ramp);
  }
}

double yarn_amplitude(const RopeConfig& rope) {
  if (rope.attention_factor > 0) return rope.attention_factor;
  const auto scale = [&](double mscale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0;
  };
  if (rope.mscale > 0 && rope.mscale_all_dim > 0)
    return scale(rope.mscale) / scale(rope.mscale_all_dim);
  return scale(1.0);
}

} // namespace

int64_t rotary_size(const ModelConfig& config) {
  if (config.rope.type == "proportional") return config.head_dim;
  return static_cast<int64_t>(static_cast<double>(config.head_dim) * config.rope.partial);
}

RopeTable rope_table(const ModelConfig& config, int64_t seq) {
  const RopeConfig& rope = config.rope;
  const int64_t size = rotary_size(config);
  const double original = static_cast<double>(
      rope.original_max_positions > 0 ? rope.original_max_positions : config.max_positions);
  double theta = rope.theta;
  if (rope.type == "dynamic" && seq > config.max_positions) {
    const double stretched =
        rope.factor * static_cast<double>(seq) / static_cast<double>(config.max_positions);
    theta *= std::pow(stretched - (rope.factor - 1),
                      static_cast<double>(size) / static_cast<double>(size - 2));
  }
  std::vector<double> frequencies(static_cast<size_t>(size / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(size));
    if (rope.type == "linear") frequencies[i] /= rope.factor;
    if (rope.type == "llama3") frequencies[i] = llama3_frequency(frequencies[i], rope, original);
    const bool turns = static_cast<double>(2 * i) < rope.partial * static_cast<double>(size);
    if (rope.type == "proportional" && !turns) frequencies[i] = 0;
  }
  RopeTable table;
  if (rope.type == "yarn") {
    apply_yarn(frequencies, rope, original);
    table.amplitude = static_cast<float>(yarn_amplitude(rope));
  }
  table.inv_freq = Tensor::from(Shape{size / 2}, frequencies).to(DType::f32);
  return table;
}

RopeConfig parse_rope(const ConfigReader& reader) {
  RopeConfig rope;
  rope.theta = reader.number("rope_theta", 1e-3, 1e15, rope.theta);
  rope.partial = reader.number("partial_rotary_factor", 1e-3, 1.0, 1.0);
  const char* key = reader.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!reader.has(key)) return rope;

  const ConfigReader scaling = reader.child(key);
  rope.type = scaling.text("rope_type", scaling.text("type", "default"));
  scaling.require_text(scaling.has("rope_type") ? "rope_type" : "type",
                       {"default", "linear", "dynamic", "yarn", "llama3"});
  rope.theta = scaling.number("rope_theta", 1e-3, 1e15, rope.theta);
  rope.partial = scaling.number("partial_rotary_factor", 1e-3, 1.0, rope.partial);
  rope.factor = scaling.number("factor", 1e-6, kMaxFactor, 1.0);
  if (rope.type != "default" && !scaling.has("factor")) scaling.bad("factor", "a number");
  rope.low_freq_factor = scaling.number("low_freq_factor", 1e-6, kMaxFactor, rope.low_freq_factor);
  rope.high_freq_factor =
      scaling.number("high_freq_factor", 1e-6, kMaxFactor, rope.high_freq_factor);
  rope.beta_fast = scaling.number("beta_fast", 1e-6, kMaxFactor, rope.beta_fast);
  rope.beta_slow = scaling.number("beta_slow", 1e-6, kMaxFactor, rope.beta_slow);
  rope.mscale = scaling.number("mscale", 0, kMaxFactor, 0);
  rope.mscale_all_dim = scaling.number("mscale_all_dim", 0, kMaxFactor, 0);
  rope.attention_factor = scaling.number("attention_factor", 0, kMaxFactor, 0);
  rope.truncate = scaling.flag("truncate", true);
  rope.original_max_positions =
      scaling.integer("original_max_position_embeddings", 1, kMaxPositions, 0);
  rope.query_beta = scaling.number("llama_4_scaling_beta", 0, kMaxFactor, 0);
  if (rope.type == "llama3" && !(rope.low_freq_factor < rope.high_freq_factor)) {
    scaling.bad("high_freq_factor",
                fmt::format("more than low_freq_factor {}", rope.low_freq_factor));
  }
  return rope;
}

void print_rope(const ModelConfig& config, Json& object) {
  const RopeConfig& rope = config.rope;
  Json scaling = Json::object();
  if (rope.type != "default") {
    scaling["rope_type"] = rope.type;
    scaling["factor"] = rope.factor;
  }
  if (rope.type == "llama3") {
    scaling["low_freq_factor"] = rope.low_freq_factor;
    scaling["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.type == "yarn") {
    scaling["beta_fast"] = rope.beta_fast;
    scaling["beta_slow"] = rope.beta_slow;
    if (rope.mscale > 0) scaling["mscale"] = rope.mscale;
    if (rope.mscale_all_dim > 0) scaling["mscale_all_dim"] = rope.mscale_all_dim;
    if (rope.attention_factor > 0) scaling["attention_factor"] = rope.attention_factor;
    if (!rope.truncate) scaling["truncate"] = false;
  }
  if (rope.query_beta > 0) scaling["llama_4_scaling_beta"] = rope.query_beta;
  if (rope.original_max_positions > 0)
    scaling["original_max_position_embeddings"] = rope.original_max_positions;

  // A file keeps its spelling.
  if (object.contains("rope_parameters")) {
    if (!scaling.contains("rope_type")) scaling["rope_type"] = rope.type;
    scaling["rope_theta"] = rope.theta;
    if (rope.partial != 1.0) scaling["partial_rotary_factor"] = rope.partial;
    object["rope_parameters"] = scaling;
    return;
  }
  object["rope_theta"] = rope.theta;
  object["rope_scaling"] = scaling.empty() ? Json(nullptr) : scaling;
  if (rope.partial != 1.0) object["partial_rotary_factor"] = rope.partial;
}

} // namespace dllm::model
