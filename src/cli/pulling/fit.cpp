#include "fit.h"

#include "../commands/compile/compile_report.h"

#include <algorithm>
#include <fstream>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kTokens = 1024; // of the row that the plan decodes

// Returns the format of the weights that a config names.
std::string format_of(const std::string& folder) {
  std::ifstream file(folder + "/config.json");
  const Json config = Json::parse(file, nullptr, false);
  if (!config.is_object()) return "bf16";
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config.contains(key) || !config[key].is_string()) continue;
    if (config[key] == "float32") return "f32";
    if (config[key] == "float16") return "f16";
    return "bf16";
  }
  return "f32"; // as transformers reads such a config
}

// Returns the formats that option format of quantize names before auto, the most exact ones first.
std::vector<std::string> recommended_formats() {
  const Json schema = Json::parse(text(
      [](dllm_buffer* out, dllm_error* err) { return dllm_options_schema("quantize", out, err); }));
  std::vector<std::string> names;
  for (const Json& key : schema.at("keys")) {
    if (key.at("name") != "format") continue;
    for (const Json& name : key.at("choices")) {
      if (name == "auto") break;
      names.push_back(name.get<std::string>());
    }
  }
  return names;
}

Json plan_of(dllm_engine* engine, const std::string& folder, const std::string& format,
             dllm_task* task) {
  const auto options = make<dllm_options>(
      [&](dllm_options** out, dllm_error* err) { return dllm_options_new("plan", out, err); });
  call(
      [&](dllm_error* err) { return dllm_options_set_i64(options.get(), "length", kTokens, err); });
  call([&](dllm_error* err) {
    return dllm_options_set_str(options.get(), "dtype", format.c_str(), err);
  });
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_engine_plan(engine, folder.c_str(), options.get(), task, out, err);
  }));
}

FormatNeed need_of(const std::string& format, const Json& plan) {
  return {format, plan.value("weights", 0.0),
          std::max(plan.value("peak", 0.0), plan.value("loading", 0.0))};
}

// Returns "15.0 GiB of weights in bf16, 17.2 GiB to decode 1024 tokens".
std::string format_text(const FormatNeed& need) {
  return bytes_text(need.weights) + " of weights in " + need.format + ", " +
         bytes_text(need.needs) + " to decode " + std::to_string(kTokens) + " tokens";
}

} // namespace

Fit fit_of(const std::string& folder, double memory, dllm_task* task) {
  Fit fit;
  fit.memory = memory;
  try {
    const auto engine = make<dllm_engine>(
        [](dllm_engine** out, dllm_error* err) { return dllm_engine_new(nullptr, out, err); });
    const std::string own = format_of(folder);
    const Json plan = plan_of(engine.get(), folder, own, task);
    fit.attention = plan.value("attention", "");
    fit.own = need_of(own, plan);
    for (const std::string& format : recommended_formats()) {
      if (fit.fits() || !fit.other.format.empty()) break;
      const FormatNeed other = need_of(format, plan_of(engine.get(), folder, format, task));
      if (other.needs <= memory) fit.other = other;
    }
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_CANCELLED) throw;
    fit.unknown = failure.what();
    fit.is_readable = failure.status() != DLLM_UNIMPLEMENTED;
  }
  return fit;
}

std::string fit_text(const Fit& fit) {
  if (!fit.unknown.empty()) return "it is not known whether it fits: " + fit.unknown;
  std::string said = format_text(fit.own) + "; this machine has " + bytes_text(fit.memory);
  if (fit.fits())
    said = "fits: " + said;
  else if (!fit.other.format.empty())
    said = "fits as " + fit.other.format + ": " + said + "; --model.dtype " + fit.other.format +
           " has " + format_text(fit.other);
  else
    said = "does not fit: " + said;
  return said + (fit.attention == "causal" ? "; --policy autoregressive decodes it"
                                           : "; --policy low_confidence decodes it");
}

Json fit_json(const Fit& fit) {
  if (!fit.unknown.empty()) return {{"fits", nullptr}, {"message", fit.unknown}};
  Json made = {{"fits", fit.fits()},
               {"format", fit.own.format},
               {"weights", fit.own.weights},
               {"needs", fit.own.needs},
               {"memory", fit.memory},
               {"attention", fit.attention},
               {"policy", fit.attention == "causal" ? "autoregressive" : "low_confidence"}};
  if (!fit.other.format.empty())
    made["fits_as"] = {
        {"format", fit.other.format}, {"weights", fit.other.weights}, {"needs", fit.other.needs}};
  return made;
}

} // namespace dllm::cli
