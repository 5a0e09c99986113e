// This file says what a new adapter costs before the weights of its base are loaded.

#include "../compile/compile_report.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iterator>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

Json parsed_option(const Context& context, const char* kind, const char* key) {
  return Json::parse(context.option(kind, key));
}

// Returns the options of the plan of a step of this run.
Json step_options(const Context& context, bool is_compiled) {
  const auto number = [&](const char* kind, const char* key) {
    return parsed_option(context, kind, key).get<int64_t>();
  };
  std::string dtype = parsed_option(context, "model", "dtype").get<std::string>();
  if (dtype == "keep") dtype = "auto";
  return {{"what", "train"},
          {"format", is_compiled ? "json" : "sizes"},
          {"adapter", planned_adapter(context)},
          {"dtype", dtype},
          {"batch", number("loader", "batch") * number("loader", "ranks")},
          {"length", number("loader", "length")},
          {"objective", context.text("objective")},
          {"optimizer", parsed_option(context, "trainer", "optimizer")},
          {"remat", parsed_option(context, "trainer", "remat")},
          {"activations", parsed_option(context, "trainer", "activations")},
          {"memory", number("trainer", "memory")},
          {"offload", !parsed_option(context, "trainer", "offload").get<std::string>().empty()},
          {"offload_mib", number("trainer", "offload_mib")},
          {"ema", parsed_option(context, "trainer", "ema").get<double>() > 0}};
}

} // namespace

std::string planned_adapter(const Context& context) {
  Json values = Json::parse(options_json(context, "adapter"));
  // An option of another kind of adapter is refused even at its default.
  for (auto it = values.begin(); it != values.end();) {
    const bool is_rank = it.key() == "rank" && context.has("lora");
    it = is_rank || context.typed("adapter", it.key()) ? std::next(it) : values.erase(it);
  }
  return values.dump();
}

std::string adapter_cost(const Context& context, dllm_engine* engine) {
  // The compiler of a plugin takes long, and its program may be for another place.
  const bool is_compiled = context.option("engine", "kind") != "\"pjrt\"";
  const std::string values = step_options(context, is_compiled).dump();
  const auto options = make<dllm_options>(
      [](dllm_options** made, dllm_error* err) { return dllm_options_new("plan", made, err); });
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), values.data(), std::ssize(values), err);
  });
  const Json plan = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_engine_plan(engine, context.text("from").c_str(), options.get(), context.task(),
                            out, err);
  }));
  const auto figure = [&](const char* key) { return plan.value(key, 0.0); };
  const auto bytes = [&](const char* key) { return bytes_text(figure(key)); };
  std::string line = "before " + context.text("from") + " is loaded: trains " +
                     numbers_text(figure("trained")) + " of " + numbers_text(figure("parameters")) +
                     " parameters; base " + bytes_text(figure("weights") - figure("adapter")) +
                     ", adapter " + bytes("adapter") + ", moments " + bytes("moments");
  if (figure("offloaded") > 0) line += ", offloaded " + bytes("offloaded");
  if (!is_compiled) return line;
  return line + ", values of a step " + bytes("arena") + "; needs " + bytes("peak");
}

void say_adapter_cost(const Context& context, dllm_engine* engine) {
  if (!wants_adapter(context)) return;
  std::string cost;
  try {
    cost = adapter_cost(context, engine);
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_CANCELLED) throw;
    return; // the load, or the trainer, fails for the same reason and names the option
  }
  std::fprintf(stderr, "%s, %s\n", asking_option(context).c_str(), cost.c_str());
}

void print_adapter_cost(Context& context) {
  if (!wants_adapter(context) || !context.has("from")) return;
  set_rank(context);
  const auto engine = open_engine(context);
  std::printf("\n%s, %s\n", asking_option(context).c_str(),
              adapter_cost(context, engine.get()).c_str());
}

} // namespace dllm::cli
