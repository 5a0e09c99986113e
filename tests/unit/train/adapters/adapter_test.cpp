// Training adapters: the base, in any format, keeps its numbers; A and B move. Freezing some
// layers.

#include "model/adapters/adapter.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "model/model.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

namespace dllm::train {
namespace {

std::map<std::string, Tensor> numbers_of(const model::Model& model) {
  std::map<std::string, Tensor> made;
  for (const std::string& name : model.params().names(model::kBasePart))
    made[name] = model.params().read(name).clone();
  return made;
}

bool equal_numbers(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.byte_size())) == 0;
}

std::shared_ptr<model::Model> wide_model(const char* dtype, bool is_tied = false) {
  Json config = tiny_config(is_tied);
  config.update({{"hidden_size", 32}, {"head_dim", 8}, {"intermediate_size", 64}});
  Options options(model::model_schema());
  options.set_text("dtype", dtype);
  return model::new_model(tiny_engine(), config, options);
}

std::unique_ptr<Trainer> adapter_trainer(const std::shared_ptr<model::Model>& model,
                                         const Json& values) {
  return std::make_unique<Trainer>(model, noise::make_objective("mdlm"), trainer_options(values));
}

TEST(TrainAdapters, OnlyTheyMove) {
  for (const auto& [dtype, is_dora] :
       {std::pair{"f32", false}, {"int8", false}, {"q8_0", false}, {"f32", true}, {"q8_0", true}}) {
    const auto model = wide_model(dtype);
    model::AdapterOptions adapter{{"*_proj.weight"}, {4, 8}, 1};
    adapter.settings.kind = is_dora ? "dora" : "lora";
    model::add_adapter(*model, adapter);
    const std::string magnitude = "model.layers.1.mlp.up_proj.lora_magnitude_vector";
    const Tensor first = is_dora ? model->params().read(magnitude).clone() : Tensor();
    const std::map<std::string, Tensor> before = numbers_of(*model);
    const auto trainer = adapter_trainer(model, {{"lr", 0.02}});
    TextSource source;
    trainer->run(source, 5);
    for (const auto& [name, value] : before)
      EXPECT_TRUE(equal_numbers(model->params().read(name), value)) << dtype << ' ' << name;
    if (is_dora) EXPECT_FALSE(equal_numbers(model->params().read(magnitude), first)) << dtype;
    for (const char* part : {"lora_A", "lora_B"}) {
      const Tensor values =
          model->params().read(std::string("model.layers.1.mlp.up_proj.") + part + ".weight");
      double size = 0;
      for (const float x : values.as<float>()) size += std::abs(static_cast<double>(x));
      EXPECT_GT(size, 0) // B began as zeros
          << dtype << ' ' << part;
    }
    for (const Json& row : Json(model->describe().at("storage"))) {
      if (row.at("name") != "layers.q") continue;
      EXPECT_EQ(row.at("format"), dtype); // no f32 copy of the base
    }
  }
}

// Every tensor of every kind is trained, and the loss falls.
TEST(TrainAdapters, AllKindsLearn) {
  for (const model::AdapterKind* kind : model::adapter_kinds()) {
    SCOPED_TRACE(kind->name);
    const auto model = wide_model("f32");
    model::AdapterOptions adapter{{"*_proj.weight"}, {4, 8}, 1};
    adapter.settings.kind = kind->name;
    model::add_adapter(*model, adapter);
    std::map<std::string, Tensor> first;
    for (const std::string& name : model->params().names("adapter:default"))
      first[name] = model->params().read(name).clone();
    const std::map<std::string, Tensor> before = numbers_of(*model);
    const auto trainer = adapter_trainer(model, {{"lr", 0.02}});
    TextSource source;
    const std::vector<double> losses = losses_of(*trainer, source, 20);
    EXPECT_LT(losses.back(), losses.front());
    for (const auto& [name, value] : before)
      EXPECT_TRUE(equal_numbers(model->params().read(name), value)) << name;
    for (const auto& [name, value] : first)
      EXPECT_FALSE(equal_numbers(model->params().read(name), value)) << name;
  }
}

// A copy of a module is trained whole, and the base keeps its numbers.
TEST(TrainAdapters, ModulesOfTheirOwnMove) {
  for (const auto& [dtype, is_tied] :
       {std::pair{"f32", false}, {"q8_0", false}, {"f32", true}, {"nf4", true}}) {
    const auto model = wide_model(dtype, is_tied);
    model::AdapterOptions adapter{{"*_proj.weight"}, {4, 8}, 1};
    adapter.settings.modules_to_save = {"embed_tokens", "lm_head", "norm"};
    model::add_adapter(*model, adapter);
    const std::map<std::string, Tensor> before = numbers_of(*model);
    const auto trainer = adapter_trainer(model, {{"lr", 0.02}});
    TextSource source;
    trainer->run(source, 5);
    for (const auto& [name, value] : before)
      EXPECT_TRUE(equal_numbers(model->params().read(name), value)) << dtype << ' ' << name;
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight",
                             "model.layers.1.input_layernorm.weight"}) {
      if (is_tied && name == std::string("lm_head.weight")) continue;
      const Tensor moved = model->params().read(std::string("adapter:default/") + name);
      EXPECT_FALSE(equal_numbers(moved, before.at(name).to(DType::f32))) << dtype << ' ' << name;
    }
  }
}

TEST(TrainAdapters, FrozenLayersKeepTheirNumbers) {
  const auto model = wide_model("f32");
  const std::map<std::string, Tensor> before = numbers_of(*model);
  const auto trainer = adapter_trainer(model, {{"freeze", {"model.layers.0.*"}}, {"lr", 0.02}});
  TextSource source;
  trainer->run(source, 3);
  for (const auto& [name, value] : before) {
    const bool frozen = name.starts_with("model.layers.0.");
    EXPECT_EQ(equal_numbers(model->params().read(name), value), frozen) << name;
  }
}

} // namespace
} // namespace dllm::train
