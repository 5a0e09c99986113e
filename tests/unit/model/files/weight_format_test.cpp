// Models whose weights stay in the format of their file: same numbers as the dequantized model,
// less memory.

#include "base/error.h"
#include "base/log.h"
#include "ckpt/gguf/gguf.h"
#include "graph/ops.h"
#include "model/model.h"
#include "model/network/builder.h"
#include "unit/model/files/gguf_writer.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace dllm::model {
namespace {

using test::expect_error;
using test::gguf_of;
using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

// Rows are whole blocks of 32.
Json block_config(const std::string& family, bool tied) {
  Json config = small_config(family);
  config.update({{"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"head_dim", 16},
                 {"tie_word_embeddings", tied}});
  return config;
}

std::shared_ptr<Model> load_as(const std::string& bytes, const char* dtype) {
  MemorySource source;
  source.add("model.gguf", bytes.data(), bytes.size(), true);
  return load_model(small_engine(), source, model_options({{"dtype", dtype}}));
}

std::string quantized_gguf(const char* family, const char* format, bool tied) {
  const auto model =
      new_model(small_engine(), block_config(family, tied), model_options({{"seed", "3"}}));
  return gguf_of(*model, {family, 3, "", &weight_format(format)});
}

Json storage_row(const Model& model, const std::string& name) {
  for (const Json& row : Json(model.describe().at("storage"))) {
    if (row.at("name") == name) return row;
  }
  return {};
}

// llama turns the rows of q and k; qwen2 has biases, which stay f32.
TEST(WeightFormats, KeptModelHasTheBitsOfTheDequantizedOne) {
  for (const char* format : {"q8_0", "f16"}) {
    for (const char* family : {"llama", "qwen2", "qwen3"}) {
      for (const bool tied : {false, true}) {
        const std::string bytes = quantized_gguf(family, format, tied);
        const auto kept = load_as(bytes, "keep"), wide = load_as(bytes, "f32");
        EXPECT_EQ(storage_row(*kept, "layers.q").at("format"), format);
        EXPECT_EQ(storage_row(*kept, "layers.q").at("dtype"), format);
        EXPECT_EQ(storage_row(*kept, "layers.q").at("shape"),
                  storage_row(*wide, "layers.q").at("shape"));
        EXPECT_EQ(storage_row(*kept, "embedding").at("format"), format);
        EXPECT_EQ(storage_row(*kept, "norm").at("format"), "f32");
        EXPECT_EQ(kept->i64("params"), wide->i64("params"));
        for (const std::string& name : kept->params().names())
          EXPECT_TRUE(test::same_bytes(kept->params().read(name), wide->params().read(name)))
              << name;
        const Batch batch = small_ids(2, 9, 23);
        EXPECT_TRUE(test::same_bytes(forward(*kept, batch).at("logits"),
                                     forward(*wide, batch).at("logits")))
            << format << ' ' << family << (tied ? " tied" : "");
      }
    }
  }
}

// q8_0: 34 bytes for 32 numbers, also after a product has made its panels; nothing is kept twice.
TEST(WeightFormats, KeptModelTakesTheBytesOfItsFormat) {
  for (const bool tied : {false, true}) {
    Json config = block_config("llama", tied);
    config.update({{"vocab_size", 64}, {"hidden_size", 128}, {"intermediate_size", 256}});
    const auto model = new_model(small_engine(), config, model_options({{"dtype", "q8_0"}}));
    int64_t expected = 0;
    for (const ParamStore::Physical& entry : model->params().physical())
      expected += weight_bytes(*entry.format, entry.spec.shape());
    EXPECT_EQ(model->i64("bytes"), expected);
    forward(*model, small_ids(2, 9, 64));
    EXPECT_EQ(model->i64("bytes"), expected);
    EXPECT_LT(static_cast<double>(expected), 1.08 * static_cast<double>(model->i64("params")));
  }
}

// Who names no format gets that of the file, whatever it is.
TEST(WeightFormats, AutoIsTheFormatOfTheFile) {
  Json config = block_config("llama", true);
  config.update({{"hidden_size", 256}, {"intermediate_size", 256}, {"head_dim", 64}});
  const auto model = new_model(small_engine(), config, model_options({{"seed", "3"}}));
  for (const WeightFormat* format : weight_formats()) {
    if (!ckpt::ggml_type_of(*format)) continue; // int8: GGUF has no such type
    const std::string bytes = gguf_of(*model, {"llama", 3, "", format});
    const auto loaded = load_as(bytes, "auto");
    for (const Json& row : Json(loaded->describe().at("storage"))) {
      const bool is_vector = row.at("name").get<std::string>().find("norm") != std::string::npos;
      EXPECT_EQ(row.at("format"), is_vector ? "f32" : format->name) << row.dump();
    }
  }
}

// Training widens what it trains, exactly: the masters are the numbers of the file.
TEST(WeightFormats, MastersOfBlocksAreTheirNumbers) {
  std::vector<std::string> lines;
  log_hook(LogLevel::warn, [&](LogLevel, const std::string& line) { lines.push_back(line); });
  for (const char* format : {"q8_0", "f16"}) {
    const std::string bytes = quantized_gguf("llama", format, true);
    const auto kept = load_as(bytes, "auto"), wide = load_as(bytes, "f32");
    lines.clear();
    kept->params().make_masters(kept->trained());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find(std::string("widens weights of format ") + format), std::string::npos)
        << lines[0];
    for (const Json& row : Json(kept->describe().at("storage"))) EXPECT_EQ(row.at("format"), "f32");
    for (const std::string& name : wide->params().names())
      EXPECT_TRUE(test::same_bytes(kept->params().read(name), wide->params().read(name))) << name;
  }
  log_hook(LogLevel::error, {});
}

// A format whose blocks do not fill a row, and parameters that are never quantized, are f32.
TEST(WeightFormats, WhatDoesNotFitIsF32) {
  const auto model = new_model(small_engine(), small_config("llama"),
                               model_options({{"dtype", "q8_0"}})); // rows of 16 and 24
  for (const Json& row : Json(model->describe().at("storage"))) EXPECT_EQ(row.at("format"), "f32");
  const auto experts = new_model(small_engine(), block_config("qwen3_moe", false),
                                 model_options({{"dtype", "q8_0"}}));
  bool router = false;
  for (const Json& row : Json(experts->describe().at("storage"))) {
    if (row.at("name").get<std::string>().find("router") == std::string::npos) continue;
    router = true;
    EXPECT_EQ(row.at("format"), "f32");
  }
  EXPECT_TRUE(router);
}

TEST(WeightFormats, ExpertsInBlocksHaveTheBitsOfF32) {
  Json config = block_config("qwen3_moe", false);
  config["moe_intermediate_size"] = 32;
  const auto kept = new_model(small_engine(), config, model_options({{"dtype", "q8_0"}}));
  const auto wide = new_model(small_engine(), config, model_options());
  for (const std::string& name : kept->params().names())
    wide->params().write(name, kept->params().read(name));
  const Batch batch = small_ids(2, 9, 23);
  EXPECT_TRUE(
      test::same_bytes(forward(*kept, batch).at("logits"), forward(*wide, batch).at("logits")));
}

TEST(WeightFormats, WritesQuantizeAgain) {
  const auto model =
      new_model(small_engine(), block_config("llama", true), model_options({{"dtype", "q8_0"}}));
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const Tensor before = model->params().read(name);
  Tensor value(DType::f32, before.shape());
  for (int64_t i = 0; i < value.count(); ++i)
    value.mutable_as<float>()[static_cast<size_t>(i)] = std::sin(static_cast<float>(i));
  model->params().write(name, value);
  const Tensor after = model->params().read(name);
  for (int64_t i = 0; i < value.count(); ++i)
    EXPECT_NEAR(after.as<float>()[static_cast<size_t>(i)],
                value.as<float>()[static_cast<size_t>(i)], 0.5 / 127 + 5e-4);
  EXPECT_FALSE(test::same_bytes(before, after));
  EXPECT_GT(storage_row(*model, "layers.down").at("rounding_error").get<double>(), 0);
  EXPECT_EQ(model->ensure_mask_token(), model->config().mask_token_id); // the table grows by a row
}

// Blocks that are decoded and packed again may have other numbers.
TEST(WeightFormats, NewMaskTokenKeepsTheOtherRows) {
  Json config = block_config("qwen3", false);
  config.update({{"hidden_size", 256}, {"intermediate_size", 256}});
  int32_t tested = 0;
  for (const WeightFormat* format : weight_formats()) {
    const auto model =
        new_model(small_engine(), config, model_options({{"dtype", format->name}, {"seed", "5"}}));
    const std::vector<std::string> tables = {"embedding", "head"};
    std::vector<Tensor> before;
    for (const std::string& table : tables)
      before.push_back(model->params().widened(model->params().index(table)));
    const int64_t id = model->ensure_mask_token(), width = 256;
    for (size_t i = 0; i < tables.size(); ++i) {
      const Tensor after = model->params().widened(model->params().index(tables[i]));
      ASSERT_EQ(after.count(), before[i].count() + width) << format->name;
      EXPECT_EQ(std::memcmp(after.bytes(), before[i].bytes(), before[i].byte_size()), 0)
          << format->name << " " << tables[i];
      double largest = 0;
      for (int64_t column = 0; column < width; ++column) {
        double sum = 0;
        for (int64_t row = 0; row < id; ++row)
          sum += before[i].row(row).as<float>()[static_cast<size_t>(column)];
        const double mean = sum / static_cast<double>(id);
        largest = std::max(largest, std::abs(mean));
        EXPECT_NEAR(after.row(id).as<float>()[static_cast<size_t>(column)], mean, 0.02)
            << format->name;
      }
      EXPECT_GT(largest, 0);
    }
    ++tested;
  }
  EXPECT_GE(tested, 10);
}

TEST(WeightFormats, SavesAsFloats) {
  const test::TempFolder folder;
  const auto kept = load_as(quantized_gguf("qwen2", "q8_0", false), "keep");
  save_model(*kept, folder.path("m"), Options(save_schema()));
  const auto back = load_model(small_engine(), folder.path("m"), model_options());
  for (const std::string& name : kept->params().names())
    EXPECT_TRUE(test::same_bytes(back->params().read(name), kept->params().read(name))) << name;
}

TEST(WeightFormats, KeepsHalvesOfSafetensors) {
  const test::TempFolder folder;
  const auto model = new_model(small_engine(), block_config("llama", false), model_options());
  Options options(save_schema());
  options.set_text("dtype", "f16");
  save_model(*model, folder.path("m"), options);
  const auto kept = load_model(small_engine(), folder.path("m"), model_options());
  const auto wide = load_model(small_engine(), folder.path("m"), model_options({{"dtype", "f32"}}));
  EXPECT_EQ(storage_row(*kept, "layers.q").at("format"), "f16");
  save_model(*kept, folder.path("again"), Options(save_schema()));
  const auto again = load_model(small_engine(), folder.path("again"), model_options());
  EXPECT_EQ(storage_row(*again, "layers.q").at("format"), "f16");
  for (const std::string& name : kept->params().names())
    EXPECT_TRUE(test::same_bytes(again->params().read(name), kept->params().read(name))) << name;
  EXPECT_EQ(storage_row(*wide, "layers.q").at("format"), "f32");
  const Batch batch = small_ids(2, 9, 23);
  EXPECT_TRUE(
      test::same_bytes(forward(*kept, batch).at("logits"), forward(*wide, batch).at("logits")));
}

TEST(WeightFormats, MastersAreF32) {
  const auto model = load_as(quantized_gguf("llama", "q8_0", true), "keep");
  const std::string name = model->params().names().front();
  const Tensor before = model->params().read(name);
  model->params().make_masters(model->trained());
  for (const Json& row : Json(model->describe().at("storage"))) EXPECT_EQ(row.at("format"), "f32");
  EXPECT_TRUE(test::same_bytes(model->params().read(name), before));
}

TEST(WeightFormats, CopiesKeepTheFormat) {
  const auto model = load_as(quantized_gguf("llama", "q8_0", true), "keep");
  const auto copy = clone_model(*model);
  EXPECT_EQ(copy->describe().at("storage"), model->describe().at("storage"));
  const Batch batch = small_ids(1, 7, 23);
  EXPECT_TRUE(
      test::same_bytes(forward(*copy, batch).at("logits"), forward(*model, batch).at("logits")));
}

// The head is the last tensor: 23 rows of 2 blocks, filled up to 32 bytes.
TEST(WeightFormats, BadBlocksAreNamed) {
  std::string bytes = quantized_gguf("llama", "q8_0", false);
  const uint16_t infinity = 0x7C00;
  std::memcpy(bytes.data() + bytes.size() - (23 * 2 * 34 + 31) / 32 * 32, &infinity,
              sizeof infinity);
  expect_error(Code::data_loss, "lm_head.weight holds", [&] { load_as(bytes, "keep"); });
}

// y = x w^T; dx of sum(y^2) through a frozen w has the bits of the f32 w; w itself has no gradient.
TEST(WeightFormats, GradientsPassThrough) {
  const WeightFormat& q8 = weight_format("q8_0");
  const Shape shape{48, 64};
  Tensor stored(DType::u8, stored_shape(q8, shape)), x(DType::f32, {5, 64});
  stored.set_format(&q8);
  for (int64_t i = 0; i < x.count(); ++i)
    x.mutable_as<float>()[static_cast<size_t>(i)] = std::cos(static_cast<float>(i));
  for (int64_t r = 0; r < 48; ++r) {
    float row[64];
    for (int i = 0; i < 64; ++i) row[i] = std::sin(static_cast<float>(r * 64 + i));
    q8.quantize(row, 64, stored.mutable_bytes() + r * q8.row_bytes(64), nullptr);
  }
  const auto engine = small_engine();
  const auto dx_of = [&](const Tensor& weight, bool of_weight) {
    const auto graph = std::make_shared<graph::Graph>("g");
    const graph::Value in = graph->input("x", DType::f32, x.shape());
    const graph::Value w =
        graph->input("w", {weight.shape(), weight.dtype(), {}, weight.format()}, true);
    const graph::Value y = graph::linear(in, w);
    const graph::Value loss = graph::sum(graph::multiply(y, y), {0, 1});
    graph->output("d", graph::gradients(loss, {of_weight ? w : in})[0]);
    const std::vector<graph::BufferRef> inputs = {engine->upload(x),
                                                  engine->upload_weight(weight, false)};
    return engine->compile(graph)->run(inputs)[0]->read();
  };
  EXPECT_TRUE(test::same_bytes(dx_of(stored, false), dx_of(dequantize(stored, {}), false)));
  EXPECT_THROW(dx_of(stored, true), Error);
}

} // namespace
} // namespace dllm::model
