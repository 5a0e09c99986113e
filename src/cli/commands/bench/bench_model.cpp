#include "bench_model.h"

#include "../../options/names.h"
#include "command.h"

#include <algorithm>

namespace dllm::cli {
namespace {

using ModelJson = nlohmann::ordered_json;

const BenchPreset& preset_named(const std::string& name) {
  std::vector<std::string> names;
  for (const BenchPreset& preset : bench_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw UsageFailure("--preset: " + no_such("preset", name, names),
                     "there are " + listed(names) + "; --model takes a folder or a config.json");
}

ModelJson engine_options(const Context& context) {
  return ModelJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options("engine"), out, err);
  }));
}

// Sets the engine's option of this name. An engine without the option computes in f32.
void choose_arithmetic(Context& context) {
  if (!context.has("arithmetic")) return;
  if (context.text("arithmetic") == "f32" && !engine_options(context).contains("arithmetic"))
    return;
  set_from_argument(context, "engine", "arithmetic", "arithmetic");
}

// Makes the last token the mask token of a shape without one, because decoding and training need
// one.
std::string with_mask(const std::string& config, const std::string& path) {
  ModelJson object = ModelJson::parse(config, nullptr, false);
  if (!object.is_object()) throw Failure(DLLM_DATA_LOSS, path + " is not a JSON object");
  const ModelJson own = object.value("dllm", ModelJson::object());
  const bool has_mask =
      object.contains("mask_token_id") || (own.is_object() && own.contains("mask_token_id"));
  if (!has_mask && object.contains("vocab_size") && object["vocab_size"].is_number_integer())
    object["mask_token_id"] = object["vocab_size"].get<int64_t>() - 1;
  return object.dump();
}

// Does the same for a model with weights; the files of an autoregressive model name no mask token.
Owned<dllm_model> load_weights(const Context& context, dllm_engine* engine,
                               const std::string& path) {
  const auto checkpoint = open_checkpoint(context, path);
  const auto about = ModelJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_checkpoint_describe(checkpoint.get(), out, err);
  }));
  const ModelJson model = about.value("model", ModelJson::object());
  const int64_t last = model.value("vocab", int64_t{0}) - 1;
  const bool has_mask = model.value("mask_token_id", int64_t{-1}) >= 0;
  if (!has_mask && last >= 0 && !context.typed("model", "mask_token")) {
    call([&](dllm_error* err) {
      return dllm_options_set_str(context.options("model"), "mask_token",
                                  std::to_string(last).c_str(), err);
    });
  }
  return open_model(context, engine, path);
}

Owned<dllm_model> new_weights(const Context& context, dllm_engine* engine,
                              const std::string& config) {
  return make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    return dllm_model_new(engine, config.data(), static_cast<int64_t>(config.size()),
                          context.options("model"), context.task(), out, err);
  });
}

bool is_config(const std::string& path) {
  return path.size() > 5 && path.compare(path.size() - 5, 5, ".json") == 0;
}

} // namespace

const std::vector<BenchPreset>& bench_presets() {
  static const std::vector<BenchPreset> presets = {
      {"0.5b", "Qwen2.5-0.5B, 494 M parameters",
       R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
           "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
           "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
           "tie_word_embeddings": true,
           "dllm": {"attention": "bidirectional", "shift": 0, "mask_token_id": 151935}})"},
      {"135m", "SmolLM2-135M, 135 M parameters",
       R"({"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
           "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
           "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000.0,
           "tie_word_embeddings": true,
           "dllm": {"attention": "bidirectional", "shift": 0, "mask_token_id": 49151}})"},
      {"124m", "GPT-2, 124 M parameters and a mask token",
       R"({"model_type": "gpt2", "vocab_size": 50258, "n_embd": 768, "n_layer": 12, "n_head": 12,
           "n_positions": 1024,
           "dllm": {"attention": "bidirectional", "shift": 0, "mask_token_id": 50257}})"},
      {"tiny", "2 layers of 64, for tests",
       R"({"model_type": "qwen2", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
           "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
           "max_position_embeddings": 2048, "tie_word_embeddings": true,
           "dllm": {"attention": "bidirectional", "shift": 0, "mask_token_id": 511}})"}};
  return presets;
}

BenchSubject open_subject(Context& context) {
  if (context.typed("model") && context.typed("preset"))
    throw UsageFailure("--model and --preset are both a model: give one of them");
  BenchSubject subject;
  const std::string path = context.text("model");
  std::string config;
  if (path.empty()) {
    const BenchPreset& preset = preset_named(context.text("preset"));
    subject.model = "preset " + preset.name;
    config = preset.config;
  } else {
    subject.model = path;
    if (is_config(path)) config = with_mask(read_all(path), path);
  }
  subject.random_weights = !config.empty();
  choose_arithmetic(context);
  if (context.has("format")) set_from_argument(context, "model", "dtype", "format");
  subject.engine = open_engine(context);
  subject.weights = subject.random_weights ? new_weights(context, subject.engine.get(), config)
                                           : load_weights(context, subject.engine.get(), path);
  subject.about = ModelJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_model_describe(subject.weights.get(), out, err);
  }));
  const auto shape = ModelJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_model_config(subject.weights.get(), out, err);
  }));
  subject.cost = cost_of(subject.about, shape.value("num_experts_per_tok", int64_t{0}));
  const auto engine = ModelJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_engine_describe(subject.engine.get(), out, err);
  }));
  subject.threads = engine.value("threads", int64_t{1});
  subject.simd = engine.value("simd", "");
  subject.is_cpu = engine.value("kind", "") == "cpu";
  subject.arithmetic = engine_options(context).value("arithmetic", "f32");
  return subject;
}

} // namespace dllm::cli
