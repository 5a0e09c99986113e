// This file adds the adapter of --lora or --adapter.kind to the model of a run.

#include "../../options/names.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iterator>

namespace dllm::cli {

using Json = nlohmann::ordered_json;

std::string numbers_text(double count) {
  char text[40];
  const double millions = count / 1e6;
  if (millions >= 10)
    std::snprintf(text, sizeof text, "%.0f M", millions);
  else if (millions >= 0.1)
    std::snprintf(text, sizeof text, "%.2f M", millions);
  else
    std::snprintf(text, sizeof text, "%.1f k", count / 1e3);
  return text;
}

std::string asking_option(const Context& context) {
  if (context.has("lora")) return "--lora " + context.text("lora");
  return option_name("adapter", "kind") + " " +
         Json::parse(context.option("adapter", "kind")).get<std::string>();
}

bool wants_adapter(const Context& context) {
  return context.has("lora") || context.typed_alone("adapter", "kind");
}

void set_rank(Context& context) {
  refuse_typed(context, "adapter", "rank", "the rank of the adapter is --lora");
  if (!context.has("lora")) return;
  const std::string values = Json{{"rank", context.number("lora")}}.dump();
  try {
    call([&](dllm_error* err) {
      return dllm_options_set_json(context.options("adapter"), values.data(), std::ssize(values),
                                   err);
    });
  } catch (const Failure& failure) {
    throw UsageFailure("--lora: " + std::string(failure.what()), failure.hint());
  }
}

void check_adapter(const Context& context) {
  const bool is_new = wants_adapter(context);
  if (is_new && !context.has("from")) {
    throw UsageFailure(asking_option(context) + " needs a model to adapt",
                       "name it with --from; a new model is trained as a whole");
  }
  if (is_new && context.typed("model", "heads")) {
    throw UsageFailure("--lora trains no new heads, which --model.heads adds",
                       "train the model as a whole with this objective first, without --lora");
  }
  if (context.typed("model", "adapter")) {
    if (!context.has("from"))
      throw UsageFailure("--adapter needs the model that the adapter is for: name it with --from");
    if (is_new) {
      throw UsageFailure("--lora adds a new adapter, and --adapter goes on with one that is there",
                         "leave one of them out");
    }
  }
  check_adapter_options(context);
}

void check_adapter_options(const Context& context) {
  if (wants_adapter(context)) return;
  const Json options = Json::parse(options_json(context, "adapter"));
  for (const auto& [key, value] : options.items()) {
    if (context.typed_alone("adapter", key))
      throw UsageFailure(option_name("adapter", key) + " needs --lora with a rank");
  }
}

void add_adapter(const Context& context, dllm_model* model) {
  if (!wants_adapter(context)) return;
  try {
    call([&](dllm_error* err) {
      return dllm_model_add_adapter(model, "default", context.options("adapter"), context.task(),
                                    err);
    });
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_ALREADY_EXISTS) throw;
    throw Failure(failure.status(), "--lora: " + context.text("from") + " has an adapter already",
                  "leave --lora out to go on with it, or merge it first: dllm export --merge");
  }
}

void check_heads(const Context& context, const Failure& failure) {
  const bool has_adapter = wants_adapter(context) || context.typed("model", "adapter");
  if (!has_adapter || failure.hint().find("--model.heads") == std::string::npos) return;
  throw Failure(failure.status(),
                std::string(failure.what()) + ", and an adapter does not add them",
                "train the model as a whole with objective " + context.text("objective") +
                    " first, without an adapter; then adapt that run");
}

std::string adapters_json(const dllm_model* model) {
  return text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_model_adapters(model, out, err); });
}

std::string adapters_text(const dllm_model* model) {
  const Json adapters = Json::parse(adapters_json(model));
  if (adapters.empty()) return {};
  double trained = 0;
  int64_t matrices = 0;
  std::string ranks, kinds;
  for (const Json& adapter : adapters) {
    trained += adapter.at("params").get<double>();
    matrices += adapter.at("modules").get<int64_t>();
    if (adapter.at("rank") == 0)
      kinds += (kinds.empty() ? "" : " and ") + adapter.at("kind").get<std::string>();
    else
      ranks += (ranks.empty() ? "" : " and ") + adapter.at("rank").dump();
  }
  if (!ranks.empty()) kinds = kinds.empty() ? "lora" : "lora and " + kinds;
  const auto all = static_cast<double>(model_number(model, "params"));
  const double percent = 100 * trained / all;
  char line[200];
  std::snprintf(line, sizeof line, "%s: trains %s of %s parameters (%.*f %%)%s%s, %lld matrices",
                kinds.c_str(), numbers_text(trained).c_str(), numbers_text(all).c_str(),
                percent < 0.1 ? 3 : 1, percent, ranks.empty() ? "" : ", rank ", ranks.c_str(),
                static_cast<long long>(matrices));
  return line;
}

} // namespace dllm::cli
