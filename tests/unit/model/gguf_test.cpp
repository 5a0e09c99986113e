// Models from GGUF: names, the row order of llama's q and k, metadata, damaged files.

#include "model/model.h"
#include "model/weights.h"
#include "model_tools.h"
#include "unit/ckpt/gguf_builder.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

using test::expect_error;
using test::GgufBuilder;
using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

constexpr uint32_t kU32 = 4, kF32 = 6;

// Half-split rows to neighbouring pairs, as the converter of llama.cpp writes q and k of llama.
Tensor pairs_from_halves(const Tensor& halves, int64_t head_dim) {
  Tensor pairs(DType::f32, halves.shape());
  const int64_t rows = halves.shape()[0], width = halves.count() / rows;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_dim, half = row % head_dim / (head_dim / 2),
                  i = row % (head_dim / 2);
    std::copy_n(halves.as<float>().begin() + row * width, width,
                pairs.mutable_as<float>().begin() + (head * head_dim + 2 * i + half) * width);
  }
  return pairs;
}

struct Written {
  std::string arch;
  int64_t layers = 3;
  std::string extra_tensor;
};

std::string gguf_of(const Model& model, const Written& how) {
  const ModelConfig& config = model.config();
  GgufBuilder file;
  const size_t tensors = model.params().names().size() + (how.extra_tensor.empty() ? 0 : 1);
  file.header(tensors, 9);
  file.text_value("general.architecture", how.arch);
  const auto number = [&](const char* key, int64_t value) {
    file.scalar(how.arch + "." + key, kU32, static_cast<uint32_t>(value));
  };
  number("embedding_length", config.hidden_size);
  number("block_count", how.layers);
  number("feed_forward_length", config.intermediate_size);
  number("attention.head_count", config.heads);
  number("attention.head_count_kv", config.kv_heads);
  number("attention.key_length", config.head_dim);
  number("context_length", config.max_positions);
  file.scalar(how.arch + ".attention.layer_norm_rms_epsilon", kF32,
              static_cast<float>(config.norm_eps));

  std::string data;
  const auto put = [&](const std::string& name, const Tensor& tensor) {
    const Shape& shape = tensor.shape();
    if (shape.rank() == 1)
      file.tensor(name, {static_cast<uint64_t>(shape[0])}, 0, data.size());
    else
      file.tensor(name, {static_cast<uint64_t>(shape[1]), static_cast<uint64_t>(shape[0])}, 0,
                  data.size());
    data.append(reinterpret_cast<const char*>(tensor.bytes()),
                static_cast<size_t>(tensor.byte_size()));
    data.resize((data.size() + 31) / 32 * 32);
  };
  for (const std::string& name : model.params().names()) {
    Tensor tensor = model.params().read(name);
    const bool turns =
        name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
    if (how.arch == "llama" && turns) tensor = pairs_from_halves(tensor, config.head_dim);
    put(gguf_name(name), tensor);
  }
  if (!how.extra_tensor.empty()) put(how.extra_tensor, Tensor(DType::f32, {2}));
  file.align();
  return file.bytes + data;
}

std::shared_ptr<Model> load(const std::string& bytes) {
  MemorySource source;
  source.add("model.gguf", bytes.data(), bytes.size(), true);
  return load_model(small_engine(), source, model_options());
}

TEST(Gguf, GivesTheSameLogits) {
  for (const char* arch : {"llama", "qwen2", "qwen3"}) {
    const auto model =
        new_model(small_engine(), small_config(arch), model_options({{"seed", "3"}}));
    const auto back = load(gguf_of(*model, {arch, 3, ""}));
    EXPECT_EQ(back->config().family, arch);
    EXPECT_EQ(back->config().head_dim, model->config().head_dim);
    const Batch batch = small_ids(2, 9, 23);
    EXPECT_TRUE(
        test::same_bytes(forward(*back, batch).at("logits"), forward(*model, batch).at("logits")))
        << arch;
  }
}

TEST(Gguf, NamesWhatDoesNotFit) {
  const auto model = new_model(small_engine(), small_config("llama"), model_options());
  expect_error(Code::data_loss, "model.gguf: tensor blk.3.attn_norm.weight (16) is missing", [&] {
    load(gguf_of(*model, {"llama", 4, ""}));
  });
  expect_error(Code::data_loss, "model.gguf: unexpected tensor blk.2.", [&] {
    load(gguf_of(*model, {"llama", 2, ""}));
  });
  expect_error(Code::data_loss, "unexpected tensor blk.0.attn_sinks", [&] {
    load(gguf_of(*model, {"llama", 3, "blk.0.attn_sinks"}));
  });
  expect_error(Code::unimplemented, "family gemma3 is not supported yet", [&] {
    load(gguf_of(*model, {"gemma3", 3, ""}));
  });
  const std::string bytes = gguf_of(*model, {"llama", 3, ""});
  for (size_t size = 0; size < bytes.size(); size += 97)
    EXPECT_THROW(load(bytes.substr(0, size)), Error) << size;
}

TEST(Gguf, SavesAsAHuggingFaceFolder) {
  const test::TempFolder folder;
  const auto model = new_model(small_engine(), small_config("qwen2"), model_options());
  const auto from_gguf = load(gguf_of(*model, {"qwen2", 3, ""}));
  save_model(*from_gguf, folder.path("m"), Options(save_schema()));
  const auto back = load_model(small_engine(), folder.path("m"), model_options());
  for (const std::string& name : model->params().names()) {
    EXPECT_TRUE(test::same_bytes(back->params().read(name), model->params().read(name))) << name;
  }
}

} // namespace
} // namespace dllm::model
