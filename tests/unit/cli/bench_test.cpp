#include "cli/commands/bench/bench_cost.h"
#include "cli/commands/bench/bench_peak.h"
#include "cli/commands/bench/bench_report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// Two layers of 8 with 4 inner ones, a vocabulary of 32.
Json description(const std::string& format = "f32") {
  const auto entry = [&](const char* name, const std::vector<int64_t>& shape) {
    return Json{{"name", name}, {"shape", shape}, {"format", format}};
  };
  return {{"params", 528},
          {"bytes", 2112},
          {"storage",
           {entry("embedding", {32, 8}), entry("layers.norm", {2, 8}),
            entry("layers.qkv", {2, 24, 8}), entry("layers.out", {2, 8, 8}),
            entry("layers.up", {2, 4, 8}), entry("layers.down", {2, 8, 4})}}};
}

TEST(BenchCost, CountsProductsOfLayersHeadAndAttention) {
  const ModelCost cost = cost_of(description(), 0);
  EXPECT_EQ(cost.layer_flops, 2.0 * 2 * (24 * 8 + 8 * 8 + 4 * 8 + 8 * 4));
  EXPECT_EQ(cost.head_flops, 2.0 * 32 * 8); // the table of tokens is the head
  EXPECT_EQ(cost.attention_flops, 4.0 * 2 * 8);
  EXPECT_EQ(cost.flops(10, 5, 3),
            10 * (cost.layer_flops + 5 * cost.attention_flops) + 3 * cost.head_flops);
}

TEST(BenchCost, AHeadOfItsOwnReplacesTheTableOfTokens) {
  Json about = description();
  about["storage"].push_back({{"name", "head"}, {"shape", {40, 8}}, {"format", "f32"}});
  EXPECT_EQ(cost_of(about, 0).head_flops, 2.0 * 40 * 8);
}

TEST(BenchCost, BytesFollowTheFormat) {
  const double weights = 2 * (24 * 8 + 8 * 8 + 4 * 8 + 8 * 4);
  EXPECT_EQ(cost_of(description(), 0).bytes(4, 0), 4 * weights);
  EXPECT_EQ(cost_of(description("bf16"), 0).bytes(4, 1), 2 * (weights + 32 * 8));
  EXPECT_EQ(cost_of(description("q8_0"), 0).bytes(4, 0), weights * 34 / 32);
  EXPECT_EQ(cost_of(description("new"), 0).bytes(4, 0), 4 * weights); // bytes / params
}

TEST(BenchCost, ARowUsesItsExpertsOnly) {
  Json about = {
      {"storage", {{{"name", "layers.expert_up"}, {"shape", {1, 8, 4, 16}}, {"format", "f32"}}}}};
  const ModelCost cost = cost_of(about, 2);
  EXPECT_EQ(cost.layer_flops, 2.0 * 8 * 4 * 16 / 4);
  EXPECT_EQ(cost.bytes(1, 0), 4.0 * 8 * 4 * 16 / 4);
  EXPECT_EQ(cost.bytes(100, 0), 4.0 * 8 * 4 * 16); // many rows read all of them
}

TEST(BenchCost, KeysFollowTheAttention) {
  EXPECT_EQ(mean_keys("bidirectional", 8, 0), 8);
  EXPECT_EQ(mean_keys("causal", 7, 0), 4);
  EXPECT_EQ(mean_keys("block_causal", 8, 4), 6);
  EXPECT_EQ(mean_keys("block_causal", 8, 100), 8);
}

TEST(BenchReport, TheMedianIsTheMiddle) {
  EXPECT_EQ(median_of({}), 0);
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
}

TEST(BenchReport, RatesComeFromTheMedian) {
  const Json line = summary_of({{{1, 4e9}, {2, 4e9}, {4, 4e9}}, {8e9, 4e9, 4e9}, {2.5e9}}, 10, 6e9);
  EXPECT_EQ(line["repeats"], 3);
  EXPECT_EQ(line["median_seconds"], 2);
  EXPECT_EQ(line["min_seconds"], 1);
  EXPECT_EQ(line["rows_per_second"], 5);
  EXPECT_EQ(line["gflops"], 2);
  EXPECT_EQ(line["peak_share"], 0.5);
  EXPECT_EQ(line["clock_peak_share"], 0.8);
  EXPECT_EQ(line["weight_bytes_per_second"], 3e9);
}

TEST(BenchReport, WithoutAPeakThereIsNoShare) {
  const Json line = summary_of({{{1, 4e9}}, {}, {}}, 10, 6e9);
  EXPECT_TRUE(line["peak_share"].is_null());
  EXPECT_TRUE(line["clock_peak_share"].is_null());
  EXPECT_EQ(bench_table({line}).find("peak"), std::string::npos);
}

TEST(BenchReport, TheTableHasAColumnForEachWork) {
  const std::string table =
      bench_table({{{"what", "step"}, {"rows", 256}, {"logits", "all"}, {"median_seconds", 0.25}},
                   {{"what", "train"}, {"batch", 4}, {"median_seconds", 2.0}}});
  EXPECT_EQ(table, "                        step       train\n"
                   "rows                     256\n"
                   "batch                                  4\n"
                   "logits                   all\n"
                   "median              250.0 ms     2.000 s\n");
}

TEST(BenchPeak, EveryArithmeticHasALoop) {
  for (const char* arithmetic : {"f32", "bf16", "int8"}) {
    const PeakLoop loop(arithmetic, 2);
    const double rate = loop.measure(0.001);
    EXPECT_TRUE(std::isfinite(rate) && rate > 0) << loop.name();
    const double at_clock = loop.measure_at_clock();
    EXPECT_TRUE(std::isfinite(at_clock) && at_clock > 0) << loop.name();
  }
  EXPECT_NE(PeakLoop("f32", 1).name().find("f32"), std::string::npos);
}

} // namespace
} // namespace dllm::cli
