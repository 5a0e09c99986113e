#include "generate/defaults.h"

#include "texts.h"

#include <gtest/gtest.h>

namespace dllm::generate {
namespace {

TEST(Defaults, PolicyOfTheObjective) {
  const auto model = small_model();
  const auto policy_for = [&](const std::string& objective) {
    model->set_objective(objective);
    return choose_policy(*model).policy;
  };
  EXPECT_EQ(policy_for(""), "low_confidence");
  EXPECT_EQ(policy_for("mdlm"), "low_confidence");
  EXPECT_EQ(policy_for("an objective of a later version"), "low_confidence");
  EXPECT_EQ(policy_for("uniform"), "uniform");
  EXPECT_EQ(policy_for("editflow"), "editflow");
  EXPECT_EQ(policy_for("diffusion_gemma"), "diffusion_gemma");
  const auto causal = small_model(Json::object(), "llama");
  EXPECT_EQ(choose_policy(*causal).policy, "autoregressive");
  causal->set_objective("ar");
  EXPECT_EQ(choose_policy(*causal).policy, "autoregressive");
  causal->set_objective("mdlm");
  EXPECT_EQ(choose_policy(*causal).policy, "low_confidence")
      << "it fills masks with causal attention";
}

TEST(Defaults, FileOfSettings) {
  const Json file = {{"temperature", 0.5}, {"top_k", nullptr},     {"num_steps", 8},
                     {"min_p", 0.1},       {"typical_p", 0.9},     {"repetition_penalty", 1},
                     {"top_p", 7},         {"max_new_tokens", 100}};
  const FileSettings read = read_generation_config(file, "low_confidence", request(Json::object()));
  EXPECT_EQ(read.taken, (std::vector<std::string>{"temperature", "min_p", "steps"}));
  EXPECT_EQ(read.options.f64("temperature"), 0.5);
  EXPECT_EQ(read.options.i64("steps"), 8);
  EXPECT_EQ(read.options.f64("min_p"), 0.1);
  ASSERT_EQ(read.left_out.size(), 3u);
  EXPECT_NE(read.left_out[0].find("top_p 7"), std::string::npos) << "out of bounds";
  EXPECT_EQ(read.left_out[1], "typical_p 0.9 (dllm has no such option)");
  EXPECT_NE(read.left_out[2].find("max_new_tokens 100"), std::string::npos);
}

TEST(Defaults, RequestComesFirst) {
  const Json file = {{"temperature", 0.5}, {"gen_length", 9}};
  const FileSettings read = read_generation_config(file, "low_confidence",
                                                   request({{"temperature", 1.0}, {"length", 4}}));
  EXPECT_TRUE(read.taken.empty());
  const FileSettings greedy = read_generation_config({{"do_sample", false}, {"temperature", 0.5}},
                                                     "low_confidence", request(Json::object()));
  EXPECT_TRUE(greedy.taken.empty());
  EXPECT_EQ(greedy.left_out.at(0), "temperature 0.5 (do_sample is false)");
  const FileSettings ordered =
      read_generation_config({{"steps", 5}}, "autoregressive", request(Json::object()));
  EXPECT_EQ(ordered.left_out.at(0), "steps 5 (policy autoregressive does not use it)");
}

} // namespace
} // namespace dllm::generate
