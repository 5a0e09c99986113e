// LoRA adapters in the files of PEFT: their numbers reach the layers, and what cannot be computed
// is refused.

#include "base/files.h"
#include "base/log.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/adapters/adapter_file.h"
#include "unit/cancel.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

using test::TempFolder;

const std::string kAdaptedModule = "base_model.model.model.layers.1.self_attn.q_proj";

// A of ones, B of 0.25, rank 2, for layer 1 of `module`. halves: which of the two are written.
void write_adapter(const TempFolder& folder, const Json& more = Json::object(),
                   const std::string& module = kAdaptedModule, const std::string& halves = "AB") {
  Json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 6}, {"bias", "none"}};
  config.update(more);
  write_file_atomic(folder.path("adapter_config.json"), config.dump());
  const auto values = [](Shape shape, float value) {
    return Tensor::from(shape, std::vector<float>(static_cast<size_t>(shape.count()), value));
  };
  std::vector<ckpt::TensorSpec> tensors;
  for (const char half : halves) {
    tensors.push_back({module + ".lora_" + half + ".weight", DType::f32,
                       half == 'A' ? Shape{2, 16} : Shape{16, 2}, 0});
  }
  ckpt::SafetensorsWriter writer(folder.path("adapter_model.safetensors"), tensors);
  for (const ckpt::TensorSpec& spec : writer.order()) {
    const bool down = spec.name.ends_with("A.weight");
    writer.write(spec.name, values(spec.shape, down ? 1.0f : 0.25f));
  }
  writer.close();
}

std::shared_ptr<Model> adapter_base() {
  return new_model(test::small_engine(), test::small_config("qwen3"), test::model_options());
}

TEST(AdapterFile, IsAddedToItsLayer) {
  for (const bool stabilised : {false, true}) {
    SCOPED_TRACE(stabilised);
    const TempFolder folder;
    write_adapter(folder, {{"use_rslora", stabilised}});
    const auto model = adapter_base();
    const std::string name = "model.layers.1.self_attn.q_proj.weight",
                      other = "model.layers.0.self_attn.q_proj.weight";
    const Tensor before = model->params().read(name).clone(),
                 first = model->params().read(other).clone();
    load_adapter(*model, "default", folder.path());
    EXPECT_FALSE(model->parts().adapters().empty());
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
  const auto model = adapter_base();
  save_model(*model, folder.path("model"), Options(save_schema()));
  const auto adapted = load_model(test::small_engine(), folder.path("model"),
                                  test::model_options({{"adapter", folder.path().c_str()}}));
  EXPECT_FALSE(adapted->parts().adapters().empty());
}

// Cancelled at any check the call ends with cancelled, and the model is what it was.
TEST(AdapterFile, ACancelledLoadLeavesNothingBehind) {
  const TempFolder folder;
  write_adapter(folder);
  const auto model = adapter_base();
  const auto load = [&](Task* task) { load_adapter(*model, "default", folder.path(), task); };
  const auto logits = [&] { return forward(*model, test::small_ids(1, 5, 23)).at("logits"); };
  const Tensor before = logits().clone();
  Task task;
  load(&task);
  EXPECT_EQ(task.done(), (2 * 16 + 16 * 2) * 4); // bytes of A and B
  EXPECT_EQ(task.total(), task.done());
  model->drop_part("adapter:default");
  // The runs of layers stay cut where the adapter began.
  const size_t count = model->params().physical().size();
  const int64_t checks = test::count_checks(load);
  const int64_t tensors = 2 * 2; // A and B of two layers
  EXPECT_GT(checks, tensors);
  model->drop_part("adapter:default");
  for (int64_t at = 1; at <= checks; ++at) {
    SCOPED_TRACE(at);
    test::cancel_at(at, load);
    EXPECT_TRUE(model->parts().adapters().empty());
    EXPECT_FALSE(model->params().has("model.layers.1.self_attn.q_proj.lora_A.weight"));
    ASSERT_EQ(model->params().physical().size(), count);
    for (const ParamStore::Physical& entry : model->params().physical())
      EXPECT_TRUE(model->trained()(entry)) << entry.name;
  }
  const Tensor after = logits();
  EXPECT_TRUE(std::ranges::equal(after.as<float>(), before.as<float>()));
  load(nullptr);
  EXPECT_FALSE(model->parts().adapters().empty());
}

TEST(AdapterFile, OfAModelIsCancelledAndCountedWithIt) {
  const TempFolder folder;
  write_adapter(folder);
  save_model(*adapter_base(), folder.path("model"), Options(save_schema()));
  const auto load = [&](const char* adapter, Task* task) {
    load_model(test::small_engine(), folder.path("model"),
               test::model_options({{"adapter", adapter}}), task);
  };
  const std::string place = folder.path();
  Task plain, adapted;
  load("", &plain);
  load(place.c_str(), &adapted);
  EXPECT_EQ(adapted.total(), plain.total() + (2 * 16 + 16 * 2) * 4);
  EXPECT_EQ(adapted.done(), adapted.total());
  const auto work = [&](Task* task) { load(place.c_str(), task); };
  const int64_t checks = test::count_checks(work);
  EXPECT_GT(checks, test::count_checks([&](Task* task) { load("", task); }));
  for (int64_t last = 0; last < 8; ++last) test::cancel_at(checks - last, work); // of the adapter
}

TEST(AdapterFile, AMatrixOfAnotherShapeIsRefused) {
  const TempFolder folder;
  write_adapter(folder, {{"r", 3}});
  const auto model = adapter_base();
  const Error error = test::error_of([&] { load_adapter(*model, "default", folder.path()); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_NE(error.text().find("has shape (2, 16), expected (3, 16)"), std::string::npos)
      << error.text();
  EXPECT_TRUE(model->parts().adapters().empty());
}

TEST(AdapterFile, HalfAPairIsRefusedBeforeTheModelChanges) {
  for (const char* half : {"A", "B"}) {
    const TempFolder folder;
    write_adapter(folder, Json::object(), kAdaptedModule, half);
    const auto model = adapter_base();
    const Error error = test::error_of([&] { load_adapter(*model, "default", folder.path()); });
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_NE(error.text().find(
                  fmt::format("model.layers.1.self_attn.q_proj has a lora_{} and no", half)),
              std::string::npos)
        << error.text();
    EXPECT_TRUE(model->parts().adapters().empty());
  }
}

TEST(AdapterFile, TensorsThatTheConfigDoesNotChooseAreRefused) {
  for (const Json& more : std::vector<Json>{{{"target_modules", Json::array({"k_proj"})}},
                                            {{"target_modules", ".*k_proj"}},
                                            {{"exclude_modules", Json::array({"q_proj"})}},
                                            {{"layers_to_transform", Json::array({0})},
                                             {"target_modules", Json::array({"q_proj"})}}}) {
    const TempFolder folder;
    write_adapter(folder, more);
    const auto model = adapter_base();
    const Error error = test::error_of([&] { load_adapter(*model, "default", folder.path()); });
    EXPECT_EQ(error.code(), Code::invalid_argument) << more;
    EXPECT_NE(error.text().find("model.layers.1.self_attn.q_proj"), std::string::npos)
        << error.text();
  }
}

// The layers that a file leaves out are the base's; a module without any layer is worth a line.
TEST(AdapterFile, AModuleThatTheFileLacksIsNamed) {
  const std::vector<std::pair<Json, std::string>> rows = {
      {{"q_proj"}, ""},
      {{"q_proj", "up_proj"}, "mlp.up_proj"},
      {{"q_proj", "nothing_of_this_family"}, ""},
      {{"q_proj", "embed_tokens"}, "embed_tokens"},
      {".*(q_proj|down_proj)", "mlp.down_proj"},
      {"all-linear", "self_attn.k_proj"}};
  for (const auto& [targets, named] : rows) {
    const TempFolder folder;
    write_adapter(folder, {{"target_modules", targets}});
    std::string lines;
    log_hook(LogLevel::warn, [&](LogLevel, const std::string& line) { lines += line; });
    const auto model = adapter_base();
    load_adapter(*model, "default", folder.path());
    log_hook(LogLevel::warn, {});
    EXPECT_FALSE(model->parts().adapters().empty());
    if (named.empty())
      EXPECT_EQ(lines, "") << targets;
    else
      EXPECT_NE(lines.find(named), std::string::npos) << targets << lines;
    EXPECT_EQ(lines.find("lm_head"), std::string::npos) << lines;
  }
}

TEST(AdapterFile, WhatIsNotLoraIsRefused) {
  const auto code = [](const Json& more, const std::string& module) {
    const TempFolder folder;
    write_adapter(folder, more, module);
    const auto model = adapter_base();
    return test::error_of([&] { load_adapter(*model, "default", folder.path()); }).code();
  };
  EXPECT_EQ(code({{"bias", "all"}}, kAdaptedModule), Code::unimplemented);
  EXPECT_EQ(code(Json::object(), "base_model.model.model.layers.1.mlp.nothing"), Code::not_found);
  EXPECT_EQ(code(Json::object(), "model.layers.1.self_attn.q_proj"), Code::unimplemented);
  EXPECT_EQ(code({{"use_dora", true}}, kAdaptedModule), Code::data_loss); // no magnitudes
}

} // namespace
} // namespace dllm::model
