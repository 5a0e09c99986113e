// A file whose config ties head and table, and which holds a head all the same.

#include "base/files.h"
#include "base/log.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/files/weights.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace dllm::model {
namespace {

using test::model_options;
using test::small_config;
using test::small_engine;

class OwnHead : public testing::TestWithParam<const char*> {
protected:
  Json config(bool tied) const {
    Json object = small_config(GetParam());
    object[tie_word()] = tied;
    return object;
  }
  const char* tie_word() const {
    return GetParam() == std::string("llada") ? "weight_tying" : "tie_word_embeddings";
  }
  // An untied model under a config that ties.
  void save_as_tied(Model& model) {
    Options options(save_schema());
    options.set_text("overwrite", "true");
    save_model(model, folder.path("m"), options);
    const std::string file = folder.path("m") + "/config.json";
    Json object = parse_json(read_text(file), file);
    object[tie_word()] = true;
    write_file_atomic(file, object.dump());
  }
  std::shared_ptr<Model> load() {
    lines.clear();
    log_hook(LogLevel::warn, [&](LogLevel, const std::string& line) { lines += line; });
    auto model = load_model(small_engine(), folder.path("m"), model_options());
    log_hook(LogLevel::warn, {});
    return model;
  }

  const test::TempFolder folder;
  std::string lines;
};

TEST_P(OwnHead, CountsWhereItDiffersAndIsNamed) {
  const Batch batch = test::small_ids(2, 9, 20);
  const auto model = new_model(small_engine(), config(false), model_options({{"seed", "5"}}));
  const std::string head = own_head_name(config_from_json(config(true), "config.json"));
  ASSERT_TRUE(model->params().has(head)) << head;
  save_as_tied(*model);
  const auto back = load();
  EXPECT_NE(lines.find(head), std::string::npos) << lines;
  EXPECT_FALSE(back->config().tie_embeddings);
  const Tensor expected = forward(*model, batch).at("logits");
  EXPECT_TRUE(test::same_bytes(forward(*back, batch).at("logits"), expected));
  // A save of it is untied.
  save_model(*back, folder.path("again"), Options(save_schema()));
  const auto again = load_model(small_engine(), folder.path("again"), model_options());
  EXPECT_TRUE(test::same_bytes(forward(*again, batch).at("logits"), expected));
}

TEST_P(OwnHead, IsLeftOutWhereItIsTheTable) {
  const Batch batch = test::small_ids(2, 9, 20);
  const auto model = new_model(small_engine(), config(false), model_options({{"seed", "5"}}));
  const std::string head = own_head_name(config_from_json(config(true), "config.json")),
                    table = model->params().names().front();
  ASSERT_EQ(model->params().shape(head), model->params().shape(table)) << table;
  model->params().write(head, model->params().read(table));
  save_as_tied(*model);
  const auto back = load();
  EXPECT_EQ(lines, "");
  EXPECT_TRUE(back->config().tie_embeddings);
  EXPECT_TRUE(
      test::same_bytes(forward(*back, batch).at("logits"), forward(*model, batch).at("logits")));
}

INSTANTIATE_TEST_SUITE_P(Families, OwnHead,
                         testing::Values("llama", "qwen2", "qwen3", "Dream", "llada", "lladamoe",
                                         "llada2_moe", "gpt2", "gemma2", "gemma3_text", "qwen2_moe",
                                         "qwen3_moe", "dllm_moe", "wedlm", "sdar",
                                         "nemotron_labs_diffusion", "bert", "modernbert",
                                         "dllm_bert"));

// Reads the tensors of a folder and writes them as `change` leaves them.
void rewrite(const std::string& folder,
             const std::function<void(std::map<std::string, Tensor>&)>& change) {
  std::map<std::string, Tensor> tensors;
  {
    const ckpt::WeightFiles files(*open_source(folder));
    for (const std::string& name : files.names()) tensors[name] = files.tensor(name).clone();
  }
  change(tensors);
  std::vector<ckpt::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors)
    specs.push_back({name, tensor.dtype(), tensor.shape(), 0});
  ckpt::SafetensorsWriter writer(folder + "/model.safetensors", specs);
  for (const ckpt::TensorSpec& spec : writer.order()) writer.write(spec.name, tensors[spec.name]);
  writer.close();
}

// transformers 5.24 gives the head of BERT a bias of its own and saves both; its head reads the
// second.
TEST(OwnHeadBias, OfBertIsTheOneThatTheHeadReads) {
  for (const bool tied : {true, false}) {
    SCOPED_TRACE(tied);
    Json config = small_config("bert");
    config["tie_word_embeddings"] = tied;
    const auto model = new_model(small_engine(), config, model_options());
    const std::string own = "cls.predictions.bias", of_head = "cls.predictions.decoder.bias";
    EXPECT_EQ(model->params().has(tied ? own : of_head), true);
    EXPECT_EQ(model->params().has(tied ? of_head : own), false);
    Tensor bias(DType::f32, {config["vocab_size"].get<int64_t>()});
    for (int64_t i = 0; i < bias.count(); ++i)
      bias.mutable_as<float>()[static_cast<size_t>(i)] = 0.1f * static_cast<float>(i);
    model->params().write(tied ? own : of_head, bias);
    const Batch batch = test::small_ids(2, 9, 20);
    const Tensor expected = forward(*model, batch).at("logits");
    const auto expect_same =
        [&](const char* files, const std::function<void(std::map<std::string, Tensor>&)>& change) {
          const test::TempFolder folder;
          save_model(*model, folder.path("m"), Options(save_schema()));
          rewrite(folder.path("m"), change);
          const auto back = load_model(small_engine(), folder.path("m"), model_options());
          EXPECT_TRUE(test::same_bytes(forward(*back, batch).at("logits"), expected)) << files;
        };
    expect_same("one", [&](auto& tensors) {
      const Tensor kept = tensors.at(tied ? own : of_head);
      tensors.erase(tied ? own : of_head);
      tensors[own] = kept;
    });
    expect_same("both", [&](auto& tensors) {
      tensors[of_head] = tensors.at(tied ? own : of_head);
      tensors[own] = Tensor(DType::f32, bias.shape()); // nothing reads it
    });
  }
}

} // namespace
} // namespace dllm::model
