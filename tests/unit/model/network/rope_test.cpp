#include "model/config.h"

#include "../model_tools.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::model {
namespace {

ModelConfig config_with(Json scaling) {
  Json object = test::small_config("llama");
  object["head_dim"] = 8;
  object["max_position_embeddings"] = 32;
  if (!scaling.is_null()) object["rope_scaling"] = std::move(scaling);
  return config_from_json(object, "config.json");
}

std::vector<float> frequencies(const ModelConfig& config, int64_t seq = 8) {
  const Tensor table = rope_table(config, seq).inv_freq;
  return {table.as<float>().begin(), table.as<float>().end()};
}

TEST(Rope, DefaultFrequencies) {
  const std::vector<float> f = frequencies(config_with(nullptr));
  ASSERT_EQ(f.size(), 4u);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_FLOAT_EQ(f[i], static_cast<float>(std::pow(10.0, -static_cast<double>(i))));
}

TEST(Rope, LinearDividesAll) {
  const std::vector<float> f = frequencies(config_with({{"rope_type", "linear"}, {"factor", 4.0}}));
  EXPECT_FLOAT_EQ(f[0], 0.25f);
  EXPECT_FLOAT_EQ(f[3], 0.00025f);
}

TEST(Rope, DynamicStretchesLongRowsOnly) {
  const ModelConfig config = config_with({{"type", "dynamic"}, {"factor", 2.0}});
  EXPECT_EQ(frequencies(config, 32), frequencies(config_with(nullptr)));
  // base' = base (2 * 64 / 32 - 1)^(8/6)
  const double theta = 10000.0 * std::pow(3.0, 8.0 / 6.0);
  EXPECT_NEAR(frequencies(config, 64)[1], std::pow(theta, -0.25), 1e-7);
}

TEST(Rope, PartialTurnsTheFirstDims) {
  Json object = test::small_config("llama");
  object["head_dim"] = 8;
  object["partial_rotary_factor"] = 0.5;
  const ModelConfig config = config_from_json(object, "config.json");
  EXPECT_EQ(rotary_size(config), 4);
  EXPECT_EQ(frequencies(config).size(), 2u);
}

TEST(Rope, YarnScalesTheAmplitude) {
  const ModelConfig config = config_with(
      {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}});
  EXPECT_NEAR(rope_table(config, 8).amplitude, 0.1 * std::log(4.0) + 1.0, 1e-6);
}

} // namespace
} // namespace dllm::model
