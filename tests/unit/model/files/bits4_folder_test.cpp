// Folders of bitsandbytes: what quantize writes, loads with the numbers that the format has in
// memory.

#include "ckpt/safetensors/safetensors.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/files/quantize.h"
#include "model/model.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <map>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_engine;

// hidden: 64 numbers of a row are whole blocks, 48 are not.
std::string saved_model(const test::TempFolder& folder, const std::string& type, int64_t hidden) {
  Json config = test::small_config(type);
  config.update({{"hidden_size", hidden}, {"intermediate_size", 128}, {"head_dim", 16}});
  if (type == "qwen3_moe") config["moe_intermediate_size"] = 64;
  const auto model = new_model(small_engine(), config, model_options({{"seed", "5"}}));
  save_model(*model, folder.path("f32"), Options(save_schema()));
  return folder.path("f32");
}

Json quantized(const std::string& from, const std::string& to, const char* format, bool has_codes) {
  Options options(quantize_schema());
  options.set_text("format", format);
  options.set_text("double_quant", has_codes ? "true" : "false");
  return quantize_model(from, to, options);
}

Tensor logits_at(const std::string& path, const char* dtype = "auto") {
  const auto model = load_model(small_engine(), path, model_options({{"dtype", dtype}}));
  return forward(*model, test::small_ids(2, 9, 20)).at("logits");
}

std::string format_of(const Model& model, const std::string& name) {
  const Json about = model.describe();
  for (const Json& row : about.at("storage"))
    if (row.at("name") == name) return row.at("format");
  return "";
}

TEST(Bits4Folder, HasTheNumbersOfTheFormatInMemory) {
  for (const char* format : {"nf4", "fp4"}) {
    for (const char* type : {"llama", "qwen3_moe"}) {
      const test::TempFolder folder;
      const std::string from = saved_model(folder, type, 64);
      const Json report = quantized(from, folder.path("bits4"), format, false);
      EXPECT_EQ(report.at("format"), format);
      const auto model = load_model(small_engine(), folder.path("bits4"), model_options());
      EXPECT_EQ(format_of(*model, "layers.q"), format) << type;
      EXPECT_EQ(format_of(*model, "embedding"), "f32") << type;
      // The same matrices in memory; the head and the table stay f32 in the folder.
      const auto other = load_model(small_engine(), from, model_options({{"dtype", format}}));
      for (const std::string& name : model->params().names(kBasePart)) {
        if (name.find(".layers.") == std::string::npos) continue;
        EXPECT_TRUE(test::same_bytes(model->params().read(name), other->params().read(name)))
            << type << ' ' << name;
      }
      // And back to floats.
      quantized(folder.path("bits4"), folder.path("back"), "f32", false);
      EXPECT_TRUE(
          test::same_bytes(logits_at(folder.path("back")), logits_at(folder.path("bits4"), "f32")))
          << type;
    }
  }
}

TEST(Bits4Folder, CodedScalesLoseLittle) {
  const test::TempFolder folder;
  const std::string from = saved_model(folder, "llama", 64);
  quantized(from, folder.path("plain"), "nf4", false);
  quantized(from, folder.path("coded"), "nf4", true);
  const Tensor plain = logits_at(folder.path("plain")), coded = logits_at(folder.path("coded"));
  EXPECT_FALSE(test::same_bytes(plain, coded));
  for (size_t i = 0; i < plain.as<float>().size(); ++i)
    EXPECT_NEAR(plain.as<float>()[i], coded.as<float>()[i], 1e-2);
  const Json config = parse_json(read_text(folder.path("coded") + "/config.json"), "config.json");
  EXPECT_EQ(config.at("quantization_config").at("bnb_4bit_use_double_quant"), true);
  EXPECT_EQ(config.at("torch_dtype"), "float32");
}

// Blocks that cross rows are read as numbers.
TEST(Bits4Folder, RowsOfOtherLengthsAreReadAsFloats) {
  const test::TempFolder folder;
  quantized(saved_model(folder, "llama", 48), folder.path("bits4"), "nf4", true);
  const auto model = load_model(small_engine(), folder.path("bits4"), model_options());
  EXPECT_EQ(format_of(*model, "layers.q"), "f32");
  EXPECT_EQ(format_of(*model, "layers.down"), "nf4"); // rows of 128
  EXPECT_TRUE(
      test::same_bytes(logits_at(folder.path("bits4")), logits_at(folder.path("bits4"), "f32")));
}

TEST(Bits4Folder, WhatIsMissingOrForeignIsNamed) {
  const test::TempFolder folder;
  quantized(saved_model(folder, "llama", 64), folder.path("bits4"), "nf4", false);
  const std::string file = folder.path("bits4") + "/model.safetensors";
  const std::string matrix = "model.layers.1.mlp.up_proj.weight";
  const auto rewritten = [&](const std::function<void(std::map<std::string, Tensor>&)>& change) {
    const ckpt::SafetensorsFile opened(map_file(file), "model.safetensors");
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, info] : opened.tensors()) tensors[name] = opened.tensor(name).clone();
    change(tensors);
    const std::string other = folder.path("other");
    make_directories(other);
    write_file_atomic(other + "/config.json", read_text(folder.path("bits4") + "/config.json"));
    ckpt::write_safetensors(other + "/model.safetensors", {tensors.begin(), tensors.end()});
    load_model(small_engine(), other, model_options());
  };
  expect_error(Code::data_loss, "up_proj.weight.absmax is missing",
               [&] { rewritten([&](auto& all) { all.erase(matrix + ".absmax"); }); });
  expect_error(Code::data_loss, "up_proj.weight has shape", [&] {
    rewritten([&](auto& all) { all.erase(matrix + ".quant_state.bitsandbytes__nf4"); });
  });
  expect_error(Code::unimplemented, "GPTQ or AWQ", [&] {
    rewritten([&](auto& all) {
      all["model.layers.1.mlp.up_proj.qweight"] = all.at(matrix);
      all.erase(matrix);
    });
  });
  expect_error(Code::unimplemented, "8-bit bitsandbytes", [&] {
    rewritten([&](auto& all) { all["model.layers.1.mlp.up_proj.SCB"] = Tensor(DType::f32, {64}); });
  });
}

TEST(Bits4Folder, CodedScalesAreForFourBits) {
  const test::TempFolder folder;
  const std::string from = saved_model(folder, "llama", 64);
  expect_error(Code::invalid_argument, "double_quant",
               [&] { quantized(from, folder.path("x"), "bf16", true); });
  expect_error(Code::unimplemented, "does not hold nf4",
               [&] { quantized(from, folder.path("x.gguf"), "nf4", false); });
}

} // namespace
} // namespace dllm::model
