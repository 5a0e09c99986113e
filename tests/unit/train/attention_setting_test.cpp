// What a trainer makes of a model's attention, shift and mask token, and what a save records.
#include "base/files.h"
#include "noise/loss/evaluate.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace dllm::train {
namespace {

Options model_options(const Json& values = Json::object()) {
  Options options(model::model_schema());
  options.set_json(values);
  return options;
}

class AttentionSettingTest : public testing::Test {
protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/dllm_attention_" + std::to_string(getpid());
    remove_all(root_);
    make_directories(root_);
  }
  void TearDown() override { remove_all(root_); }

  // A folder as other people's tools leave it: nothing of dllm in config.json.
  std::string next_token_folder() const {
    Json config = tiny_config();
    config.erase("mask_token_id");
    const auto model = model::new_model(tiny_engine(), config, model_options());
    const std::string folder = join_path(root_, "plain");
    model::save_model(*model, folder, Options(model::save_schema()));
    config = parse_json(read_text(join_path(folder, "config.json")), "config");
    config.erase("dllm");
    write_file_atomic(join_path(folder, "config.json"), config.dump());
    return folder;
  }
  std::string saved_by(Trainer& trainer, const std::string& run = "run") const {
    TextSource source;
    trainer.run(source, 2);
    const std::string root = join_path(root_, run);
    make_directories(root);
    return join_path(save_checkpoint(trainer, nullptr, root, Options(checkpoint_schema())),
                     "model");
  }
  static Json settings_of(const std::string& folder) {
    return parse_json(read_text(join_path(folder, "config.json")), "config").at("dllm");
  }

  std::string root_;
};

std::unique_ptr<Trainer> trainer_of(const std::shared_ptr<model::Model>& model,
                                    const std::string& objective) {
  return std::make_unique<Trainer>(model, noise::make_objective(objective), trainer_options());
}

TEST_F(AttentionSettingTest, ANextTokenModelIsSavedAsTheDiffusionModelItWasTrainedTo) {
  const auto model = model::load_model(tiny_engine(), next_token_folder(), model_options());
  EXPECT_EQ(model->config().attention, model::AttentionKind::causal);
  const auto trainer = trainer_of(model, "mdlm");
  const std::string folder = saved_by(*trainer);
  const Json settings = settings_of(folder);
  EXPECT_EQ(settings.at("attention"), "bidirectional");
  EXPECT_EQ(settings.at("shift"), 1);
  EXPECT_EQ(settings.at("mask_token_id"), 31); // a new row

  // token_ce uses the attention of the model's own config: the loss of the saved model under its
  // own settings is the one it was trained with.
  const auto again = model::load_model(tiny_engine(), folder, model_options());
  TextSource source;
  const Batch prepared = trainer->objective()->prepare(
      *source.next(), 3, 5, noise::prepare_context(*trainer->objective(), again->config()));
  noise::LossRunner trained(model, noise::make_objective("mdlm"));
  noise::LossRunner own(again, noise::make_objective("token_ce"));
  EXPECT_EQ(own.run(prepared, 3, 5, nullptr).sum, trained.run(prepared, 3, 5, nullptr).sum);
  // The shift is the model's, as in its config.
  EXPECT_EQ(again->config().shift, 1);
  const auto causal =
      model::load_model(tiny_engine(), folder, model_options({{"attention", "causal"}}));
  noise::LossRunner other(causal, noise::make_objective("token_ce"));
  EXPECT_NE(own.run(prepared, 3, 5, nullptr).sum, other.run(prepared, 3, 5, nullptr).sum);
}

TEST_F(AttentionSettingTest, WhatTheUserChoseStays) {
  const auto model = model::load_model(tiny_engine(), next_token_folder(),
                                       model_options({{"attention", "causal"}, {"shift", 0}}));
  const auto trainer = trainer_of(model, "mdlm");
  const Json settings = settings_of(saved_by(*trainer));
  EXPECT_EQ(settings.at("attention"), "causal");
  EXPECT_EQ(settings.at("shift"), 0);
}

TEST_F(AttentionSettingTest, NextTokenTrainingIsSavedAsSuch) {
  Json config = tiny_config();
  config["dllm"] = {{"attention", "bidirectional"}, {"shift", 0}, {"mask_token_id", 30}};
  const auto model = model::new_model(tiny_engine(), config, model_options());
  const auto trainer = trainer_of(model, "ar");
  const std::string folder = saved_by(*trainer);
  EXPECT_EQ(settings_of(folder).at("attention"), "causal");
  EXPECT_EQ(settings_of(folder).at("shift"), 1);
  // And from there back to a diffusion model: the shift stays.
  const auto adapted =
      trainer_of(model::load_model(tiny_engine(), folder, model_options()), "mdlm");
  const Json settings = settings_of(saved_by(*adapted, "adapted"));
  EXPECT_EQ(settings.at("attention"), "bidirectional");
  EXPECT_EQ(settings.at("shift"), 1);
}

// Random weights predict nothing yet: no shift unless the config sets it.
TEST_F(AttentionSettingTest, ANewModelKeepsItsShift) {
  Json config = tiny_config();
  config.erase("mask_token_id");
  const auto model = model::new_model(tiny_engine(), config, model_options());
  const auto trainer = trainer_of(model, "mdlm");
  const Json settings = settings_of(saved_by(*trainer));
  EXPECT_EQ(settings.at("attention"), "bidirectional");
  EXPECT_EQ(settings.at("shift"), 0);
}

TEST_F(AttentionSettingTest, TheTokenizersFilesNameTheNewMaskToken) {
  const auto model = model::load_model(tiny_engine(), next_token_folder(), model_options());
  const auto put = [&](const char* name, std::string text) {
    const auto held = std::make_shared<const std::string>(std::move(text));
    model->set_side_file(name, Bytes(held->data(), held->size(), held));
  };
  put("tokenizer.json", R"({"added_tokens": [{"id": 30, "content": "<|eos|>"}]})");
  put("tokenizer_config.json", R"({"eos_token": "<|eos|>", "added_tokens_decoder": {}})");
  const std::string folder = saved_by(*trainer_of(model, "mdlm"));
  const auto read = [&](const char* name) {
    return parse_json(read_text(join_path(folder, name)), name);
  };
  EXPECT_EQ(read("tokenizer.json").at("added_tokens").at(1).at("content"), "<|mask|>");
  const Json config = read("tokenizer_config.json");
  EXPECT_EQ(config.at("mask_token"), "<|mask|>");
  EXPECT_EQ(config.at("eos_token"), "<|eos|>");
  EXPECT_EQ(config.at("added_tokens_decoder").at("31").at("content"), "<|mask|>");
}

} // namespace
} // namespace dllm::train
