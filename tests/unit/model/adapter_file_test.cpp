// LoRA adapters in the files of PEFT: their numbers reach the layers, and what cannot be computed is refused.

#include "base/files.h"
#include "ckpt/safetensors_writer.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::model {
namespace {

using test::TempFolder;

const std::string kModule = "base_model.model.model.layers.1.self_attn.q_proj";

// A of ones, B of 0.25, rank 2, for layer 1 of `module`.
void write_adapter(const TempFolder& folder, const Json& more = Json::object(),
                   const std::string& module = kModule) {
  Json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 6}, {"bias", "none"}};
  config.update(more);
  write_file_atomic(folder.path("adapter_config.json"), config.dump());
  const auto values = [](Shape shape, float value) {
    return Tensor::from(shape, std::vector<float>(static_cast<size_t>(shape.count()), value));
  };
  ckpt::SafetensorsWriter writer(folder.path("adapter_model.safetensors"),
                                 {{module + ".lora_A.weight", DType::f32, Shape{2, 16}, 0},
                                  {module + ".lora_B.weight", DType::f32, Shape{16, 2}, 0}});
  for (const ckpt::TensorSpec& spec : writer.order()) {
    const bool down = spec.name.ends_with("A.weight");
    writer.write(spec.name, values(spec.shape, down ? 1.0f : 0.25f));
  }
  writer.close();
}

std::shared_ptr<Model> small_model() {
  return new_model(test::small_engine(), test::small_config("qwen3"), test::model_options());
}

TEST(AdapterFile, IsAddedToItsLayer) {
  for (const bool stabilised : {false, true}) {
    SCOPED_TRACE(stabilised);
    const TempFolder folder;
    write_adapter(folder, {{"use_rslora", stabilised}});
    const auto model = small_model();
    const std::string name = "model.layers.1.self_attn.q_proj.weight",
                      other = "model.layers.0.self_attn.q_proj.weight";
    const Tensor before = model->params().read(name).clone(),
                 first = model->params().read(other).clone();
    load_adapters(*model, folder.path());
    EXPECT_TRUE(model->params().has_adapters());
    merge_adapters(*model);
    const Tensor after = model->params().read(name), unchanged = model->params().read(other);
    const double factor = stabilised ? 6 / std::sqrt(2.0) : 3;
    for (size_t i = 0; i < after.as<float>().size(); ++i) {
      EXPECT_NEAR(after.as<float>()[i] - before.as<float>()[i], factor * 2 * 0.25, 1e-5);
      EXPECT_EQ(unchanged.as<float>()[i], first.as<float>()[i]);
    }
  }
}

TEST(AdapterFile, IsAnOptionOfAModel) {
  const TempFolder folder;
  write_adapter(folder);
  const auto model = small_model();
  save_model(*model, folder.path("model"), Options(save_schema()));
  const auto adapted = load_model(test::small_engine(), folder.path("model"),
                                  test::model_options({{"adapter", folder.path().c_str()}}));
  EXPECT_TRUE(adapted->params().has_adapters());
}

TEST(AdapterFile, WhatIsNotLoraIsRefused) {
  const auto code = [](const Json& more, const std::string& module) {
    const TempFolder folder;
    write_adapter(folder, more, module);
    const auto model = small_model();
    return test::error_of([&] { load_adapters(*model, folder.path()); }).code();
  };
  EXPECT_EQ(code({{"modules_to_save", {"lm_head"}}}, kModule), Code::unimplemented);
  EXPECT_EQ(code(Json::object(), "base_model.model.model.layers.1.mlp.nothing"), Code::not_found);
  EXPECT_EQ(code(Json::object(), "model.layers.1.self_attn.q_proj"), Code::unimplemented);
  EXPECT_NE(code({{"use_dora", true}}, kModule), Code::ok);
}

} // namespace
} // namespace dllm::model
