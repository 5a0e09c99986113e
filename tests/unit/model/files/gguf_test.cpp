// Models from GGUF: names, the row order of llama's q and k, metadata, damaged files.

#include "model/files/weights.h"
#include "model/model.h"
#include "unit/model/files/gguf_writer.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

using test::expect_error;
using test::gguf_of;
using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

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
  expect_error(Code::unimplemented, "family diffusion-gemma is not supported yet", [&] {
    load(gguf_of(*model, {"diffusion-gemma", 3, ""}));
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
