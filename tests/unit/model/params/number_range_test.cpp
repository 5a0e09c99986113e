// Weights that a narrower type makes infinite: loaded, set, saved and quantized.

#include "model/files/quantize.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;

const char* const kName = "model.layers.1.mlp.up_proj.weight";

// A model of f32 with one number that f16 does not hold.
std::shared_ptr<Model> model_with(float number) {
  Json config = small_config("llama");
  config.update({{"hidden_size", 32}, {"head_dim", 8}, {"intermediate_size", 32}});
  auto model = new_model(small_engine(), config, model_options());
  Tensor weight = model->params().read(kName).clone();
  weight.mutable_as<float>()[33] = number;
  model->params().write(kName, weight);
  return model;
}

Options save_options(const char* dtype) {
  Options options(save_schema());
  options.set_text("dtype", dtype);
  options.set_text("overwrite", "true");
  return options;
}

TEST(NumberRange, IsLookedAtWhereNumbersAreRounded) {
  const test::TempFolder folder;
  const auto model = model_with(1e5f);
  save_model(*model, folder.path("m"), save_options("f32"));
  for (const char* dtype : {"f16", "q8_0", "q4_0"}) {
    expect_error(Code::out_of_range, std::string(kName) + " holds 100000 at [1, 1]", [&] {
      load_model(small_engine(), folder.path("m"), model_options({{"dtype", dtype}}));
    });
    Options options(quantize_schema());
    options.set_text("format", dtype);
    expect_error(Code::out_of_range, "holds 100000 at [1, 1]", [&] {
      quantize_model(folder.path("m"), folder.path("q.gguf"), options, nullptr);
    });
  }
  expect_error(Code::out_of_range, kName,
               [&] { save_model(*model, folder.path("half"), save_options("f16")); });
  for (const char* dtype : {"f32", "bf16", "int8", "mxfp4"})
    load_model(small_engine(), folder.path("m"), model_options({{"dtype", dtype}}));
  save_model(*model, folder.path("half"), save_options("bf16"));
  load_model(small_engine(), folder.path("m"), model_options({{"dtype", "f16"}, {"check", "off"}}));
}

TEST(NumberRange, OfAWeightThatIsSet) {
  const test::TempFolder folder;
  save_model(*model_with(65504), folder.path("m"), save_options("f32"));
  const auto model =
      load_model(small_engine(), folder.path("m"), model_options({{"dtype", "f16"}}));
  Tensor weight = model->params().read(kName).to(DType::f32).clone();
  EXPECT_EQ(weight.as<float>()[33], 65504);
  weight.mutable_as<float>()[0] = 70000;
  expect_error(Code::out_of_range, "holds 70000 at [0, 0], f16 holds",
               [&] { model->params().write(kName, weight); });
  weight.mutable_as<float>()[0] = 1;
  model->params().write(kName, weight);
}

} // namespace
} // namespace dllm::model
