// What a plan says from shapes alone is what the engine takes.

#include "ckpt/gguf/gguf.h"
#include "model/files/quantize.h"
#include "model/plan.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::model {
namespace {

using test::model_options;

// Rows are whole blocks of 256. Most bytes are in the matrices of the layers.
Json plan_config(bool tied) {
  Json config = test::small_config("qwen2");
  config.update({{"vocab_size", 256},
                 {"hidden_size", 256},
                 {"intermediate_size", 512},
                 {"num_hidden_layers", 2},
                 {"head_dim", 64},
                 {"max_position_embeddings", 128},
                 {"tie_word_embeddings", tied}});
  return config;
}

// The plan next to what the engine has taken at most while it loaded the file and made a pass.
void expect_planned(const std::string& path, const char* format, const char* arithmetic) {
  constexpr int64_t kLength = 48;
  Options settings(graph::engine_schema());
  settings.set_i64("threads", 2);
  settings.set_str("arithmetic", arithmetic);
  const auto sketch = cpu::make_engine(settings), engine = cpu::make_engine(settings);
  const auto model = load_model(engine, path, model_options({{"dtype", format}}));
  const int64_t loaded = engine->i64("memory_peak");
  forward(*model, test::small_ids(1, kLength, 200));
  const auto measured = static_cast<double>(engine->i64("memory_peak"));
  Options options(plan_schema());
  options.set_json(Json{{"what", "forward"}, {"length", kLength}, {"dtype", format}});
  const Json plan = parse_json(
      plan_text(*sketch, forward_job(sketch, model->config(), options), options), "plan");
  const int64_t peak = plan.at("peak").get<int64_t>(), loading = plan.at("loading").get<int64_t>();
  EXPECT_NEAR(static_cast<double>(std::max(peak, loading)) / measured, 1, 0.02)
      << path << ' ' << format << ' ' << arithmetic << ": planned " << peak << " and " << loading
      << ", measured " << measured << ", after loading " << loaded << ", kept "
      << engine->i64("memory_used");
}

// Nearly all of it in three stacks: the third one is packed next to the others.
TEST(Plan, CountsWhatIsThereTwiceWhileLoading) {
  const test::TempFolder folder;
  Json config = plan_config(false);
  config.update({{"model_type", "lladamoe"},
                 {"num_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"expert_intermediate_size", 256}});
  save_model(*new_model(test::small_engine(), config, model_options()), folder.path("m"),
             Options(save_schema()));
  for (const char* format : {"q4_k", "q8_0"}) {
    Options options(quantize_schema());
    options.set_text("format", format);
    const std::string path = folder.path(std::string(format) + ".gguf");
    quantize_model(folder.path("m"), path, options);
    expect_planned(path, format, "f32");
  }
}

TEST(Plan, IsThePeakOfTheEngine) {
  const test::TempFolder folder;
  for (const bool tied : {true, false}) {
    const std::string from = folder.path(tied ? "tied" : "untied");
    save_model(*new_model(test::small_engine(), plan_config(tied), model_options()), from,
               Options(save_schema()));
    for (const WeightFormat* format : weight_formats()) {
      std::string path = from;
      if (ckpt::ggml_type_of(*format)) { // the blocks of the file are those of the model
        path += std::string(format->name) + ".gguf";
        Options options(quantize_schema());
        options.set_text("format", format->name);
        quantize_model(from, path, options);
      }
      for (const char* arithmetic : {"f32", "bf16", "int8"})
        expect_planned(path, format->name, arithmetic);
    }
  }
}

} // namespace
} // namespace dllm::model
