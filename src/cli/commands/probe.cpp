#include "probe.h"

#include "../child.h"
#include "../session.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

void say(const Json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout); // the next stage may be the last
}

// A model as small as they get: two layers, every operation of a transformer.
constexpr const char* kConfig =
    R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "tie_word_embeddings": true,
        "dllm": {"attention": "bidirectional", "mask_token_id": 63}})";

// Logits of one row of 16 tokens; the weights are drawn from a seed, so they are the same on every
// engine.
std::vector<float> logits_on(dllm_engine* engine) {
  const auto model = make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    const std::string config = kConfig;
    return dllm_model_new(engine, config.data(), static_cast<int64_t>(config.size()), nullptr,
                          nullptr, out, err);
  });
  const auto batch =
      make<dllm_batch>([](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); });
  std::vector<int32_t> ids(16);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 64);
  const int64_t dims[] = {1, static_cast<int64_t>(ids.size())};
  call([&](dllm_error* err) {
    return dllm_batch_set(batch.get(), "ids", DLLM_I32, dims, 2, ids.data(), err);
  });
  const auto result = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_model_forward(model.get(), batch.get(), nullptr, nullptr, out, err);
  });
  const auto logits = make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
    return dllm_batch_array(result.get(), "logits", out, err);
  });
  std::vector<float> values(ids.size() * 64);
  call([&](dllm_error* err) {
    return dllm_tensor_read(logits.get(), DLLM_F32, values.data(),
                            static_cast<int64_t>(values.size() * sizeof(float)), err);
  });
  return values;
}

void run_small_model(dllm_engine* engine) {
  const auto started = Clock::now();
  const std::vector<float> theirs = logits_on(engine);
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  const auto own = make<dllm_engine>(
      [](dllm_engine** out, dllm_error* err) { return dllm_engine_new(nullptr, out, err); });
  const std::vector<float> ours = logits_on(own.get());
  double difference = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double apart = std::fabs(static_cast<double>(theirs[i]) - ours[i]);
    difference = std::isfinite(apart) ? std::max(difference, apart) : INFINITY;
  }
  // A number that is not finite has no JSON.
  say({{"stage", "ran"},
       {"seconds", seconds},
       {"difference", std::isfinite(difference) ? Json(difference) : Json()}});
}

} // namespace

int probe_plugin(Context& context) {
  end_with_parent();
  try {
    const auto plugin = Json::parse(context.option("engine", "plugin")).get<std::string>();
    say({{"stage", "loaded"}, {"plugin", Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
                                 return dllm_plugin_describe(plugin.c_str(), out, err);
                               }))}});
    if (!context.flag("probe")) return 0;
    const auto engine = open_engine(context);
    say({{"stage", "client"}, {"engine", Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
                                 return dllm_engine_describe(engine.get(), out, err);
                               }))}});
    run_small_model(engine.get());
    return 0;
  } catch (const Failure& failure) {
    say({{"stage", "failed"},
         {"status", dllm_status_name(failure.status())},
         {"message", failure.what()},
         {"hint", failure.hint()}});
    return kFailed;
  }
}

} // namespace dllm::cli
