// An adapter's copy of an embedding that is also the head: both read the copy, in passes, in
// gradients, in merges and in the files of PEFT.

#include "base/files.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "graph/ops.h"
#include "model/adapters/adapter_config.h"
#include "model/adapters/adapter_file.h"
#include "model/adapters/adapter_save.h"
#include "model/network/builder.h"
#include "unit/model/model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

namespace dllm::model {
namespace {

constexpr const char* kTable = "model.embed_tokens.weight";
constexpr const char* kCopy = "adapter:default/model.embed_tokens.weight";
constexpr const char* kWeightsOfPeft = "adapter_model.safetensors";

std::shared_ptr<Model> tied_base(const char* dtype = "f32", const char* family = "qwen2") {
  Json config = test::small_config(family);
  config.update({{"tie_word_embeddings", true},
                 {"initializer_range", 0.3},
                 {"hidden_size", 32},
                 {"head_dim", 8}});
  return new_model(test::small_engine(), config, test::model_options({{"dtype", dtype}}));
}

AdapterOptions copying(std::vector<std::string> modules, const char* kind = "lora") {
  Options options(adapter_schema());
  options.set_json({{"targets", Json::array({"q", "down"})}, {"kind", kind}});
  AdapterOptions made = adapter_options("default", options);
  made.settings.modules_to_save = std::move(modules);
  return made;
}

Tensor tied_logits(Model& model) {
  return forward(model, test::small_ids(2, 6, 23)).at("logits").clone();
}

Tensor moved(const Tensor& values) {
  Tensor made = values.to(DType::f32).clone();
  float at = 0;
  for (float& value : made.mutable_as<float>()) value += 0.2f * std::sin(0.7f * ++at);
  return made;
}

// A base and an adapter that has written its copy.
std::shared_ptr<Model> with_moved_copy(const char* kind = "lora", const char* dtype = "f32") {
  const auto model = tied_base(dtype);
  add_adapter(*model, copying({"embed_tokens"}, kind));
  model->params().write(kCopy, moved(model->params().read(kCopy)));
  return model;
}

TEST(TiedCopy, IsTheTableAndTheHead) {
  for (const char* dtype : {"f32", "int8", "q8_0", "nf4"}) {
    SCOPED_TRACE(dtype);
    for (const char* word : {"embed_tokens", "lm_head", "head"}) {
      const auto model = tied_base(dtype);
      const Tensor plain = tied_logits(*model);
      add_adapter(*model, copying({word}));
      EXPECT_EQ(list_adapters(*model)[0].at("modules_to_save"), Json({"model.embed_tokens"}));
      // The copy of a format in blocks is multiplied by the kernels of f32.
      const Tensor added = tied_logits(*model);
      for (size_t i = 0; i < added.as<float>().size(); ++i)
        EXPECT_NEAR(added.as<float>()[i], plain.as<float>()[i], 0.02f);
      if (std::string(dtype) == "f32") EXPECT_TRUE(test::same_bytes(added, plain));
    }
  }
  const auto model = with_moved_copy();
  const auto other = tied_base();
  other->params().write(kTable, model->params().read(kCopy));
  EXPECT_TRUE(test::same_bytes(tied_logits(*model), tied_logits(*other)));
  EXPECT_TRUE(test::same_bytes(model->params().read(kTable), tied_base()->params().read(kTable)));
}

TEST(TiedCopy, AMergeStaysTied) {
  const auto model = with_moved_copy();
  const Tensor wanted = tied_logits(*model);
  const test::TempFolder folder;
  Options save(save_schema());
  save.set_text("merge", "true");
  save_model(*model, folder.path("merged"), save);
  const auto saved = load_model(test::small_engine(), folder.path("merged"), test::model_options());
  merge_adapter(*model, "default");
  for (Model* merged : {model.get(), saved.get()}) {
    EXPECT_TRUE(merged->config().tie_embeddings);
    EXPECT_FALSE(merged->params().has("lm_head.weight"));
    const Tensor got = tied_logits(*merged);
    for (size_t i = 0; i < got.as<float>().size(); ++i)
      EXPECT_NEAR(got.as<float>()[i], wanted.as<float>()[i], 1e-4f);
  }
}

// The loss of a model, and the gradient of one of its parameters.
class Loss {
public:
  Loss(Model& model, const std::string& parameter)
      : model_(model), index_(model.params().index(parameter)) {
    const auto graph = std::make_shared<graph::Graph>("tied");
    Builder builder(*graph, model);
    ForwardInputs inputs;
    inputs.ids = graph->input("ids", DType::i32, {2, 6});
    inputs.mask = graph::Mask::full();
    const graph::Value hidden = graph::reshape(builder.forward(inputs).hidden, {12, 32});
    const graph::Value targets = graph->input("targets", DType::i32, {12}),
                       loss = graph::sum(cross_entropy(builder.head(), hidden, targets, {}), {0});
    graph->output("loss", loss);
    const std::vector<size_t> indices = builder.indices();
    const size_t at = static_cast<size_t>(std::ranges::find(indices, index_) - indices.begin());
    graph->output("gradient", graph::gradients(loss, {builder.parameters()[at]})[0]);
    program_ = model.engine().compile(graph);
  }
  std::vector<Tensor> at(const Tensor& values) {
    std::vector<graph::BufferRef> buffers = model_.params().snapshot();
    if (values.defined()) buffers[index_] = model_.engine().upload(values);
    const Tensor ids = test::small_ids(2, 6, 23).at("ids");
    buffers.push_back(model_.engine().upload(ids));
    buffers.push_back(model_.engine().upload(ids.reshaped({12})));
    const auto results = program_->run(buffers);
    return {results[0]->read(), results[1]->read()};
  }

private:
  Model& model_;
  size_t index_;
  std::shared_ptr<graph::Program> program_;
};

// Central differences along single numbers: rows that are looked up and rows that the head alone
// reads. Step h has an error of h^2 and a rounding of 1e-6 loss / h.
TEST(TiedCopy, HasTheSumOfBothGradients) {
  const auto model = with_moved_copy();
  Loss loss(*model, "adapter:default/embedding");
  const Tensor values = model->params().read(kCopy), gradient = loss.at({})[1];
  double most = 0;
  for (size_t i = 0; i < static_cast<size_t>(values.count()); i += 13) {
    constexpr float kStep = 2e-2f;
    double losses[2];
    for (const int side : {0, 1}) {
      Tensor changed = values.clone();
      changed.mutable_as<float>()[i] += side == 0 ? -kStep : kStep;
      losses[side] = loss.at(changed)[0].as<float>()[0];
    }
    const double slope = (losses[1] - losses[0]) / (2 * kStep);
    EXPECT_NEAR(gradient.as<float>()[i], slope, 2e-2 + 2e-2 * std::abs(slope)) << i;
    most = std::max(most, std::abs(slope));
  }
  EXPECT_GT(most, 1);
  const auto other = tied_base(); // the gradient of the whole model, which has the same numbers
  other->params().write(kTable, values);
  EXPECT_TRUE(test::same_bytes(Loss(*other, "embedding").at({})[1], gradient));
}

Json peft_config(const std::string& folder) {
  const std::string file = join_path(folder, "adapter_config.json");
  return parse_json(read_text(file), file);
}

TEST(TiedCopy, IsSavedAsPeftTiesIt) {
  for (const char* kind : {"lora", "dora", "ia3"}) {
    SCOPED_TRACE(kind);
    const test::TempFolder folder;
    const std::string place = folder.path("adapter");
    const auto model = with_moved_copy(kind);
    save_adapter(*model, "default", place);
    const Json config = peft_config(place);
    EXPECT_EQ(config.at("modules_to_save"), Json({"model.embed_tokens", "lm_head"}));
    EXPECT_EQ(config.value(kTiesWeights, false), std::string(kind) != "ia3"); // a key of LoRA
    const ckpt::SafetensorsFile file(map_file(join_path(place, kWeightsOfPeft)), "adapter");
    const Tensor copy = model->params().read(kCopy);
    for (const char* name :
         {"base_model.model.lm_head.weight", "base_model.model.model.embed_tokens.weight"})
      EXPECT_TRUE(test::same_bytes(file.tensor(name), copy)) << name;
    const auto other = tied_base();
    load_adapter(*other, "default", place);
    EXPECT_TRUE(test::same_bytes(tied_logits(*other), tied_logits(*model)));
    EXPECT_EQ(list_adapters(*other), list_adapters(*model));
  }
}

// Writes the adapter of `place` again, with other tensors and another value of the key.
void rewrite(const std::string& place, const std::string& without, bool moves_head, bool ties) {
  const std::string path = join_path(place, kWeightsOfPeft);
  std::map<std::string, Tensor> tensors;
  {
    const ckpt::SafetensorsFile file(map_file(path), "adapter");
    for (const auto& [name, info] : file.tensors()) {
      if (name.ends_with(without)) continue;
      const bool moves = moves_head && name.ends_with("lm_head.weight");
      tensors[name] = moves ? moved(file.tensor(name)) : file.tensor(name).clone();
    }
  }
  std::vector<ckpt::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, DType::f32, tensor.shape(), 0});
  ckpt::SafetensorsWriter writer(path, specs);
  for (const ckpt::TensorSpec& spec : writer.order()) writer.write(spec.name, tensors[spec.name]);
  writer.close();
  Json config = peft_config(place);
  config[kTiesWeights] = ties;
  write_file_atomic(join_path(place, "adapter_config.json"), config.dump());
}

// PEFT may leave the tied head out of modules_to_save, and writes its tensor all the same.
TEST(TiedCopy, OfPeftNeedsNoWordForTheHead) {
  const test::TempFolder folder;
  const std::string place = folder.path("adapter"), file = join_path(place, "adapter_config.json");
  const auto model = with_moved_copy();
  save_adapter(*model, "default", place);
  Json config = peft_config(place);
  config["modules_to_save"] = {"embed_tokens", "model.embed_tokens"};
  write_file_atomic(file, config.dump());
  const auto other = tied_base();
  load_adapter(*other, "default", place);
  EXPECT_TRUE(test::same_bytes(tied_logits(*other), tied_logits(*model)));
  config["modules_to_save"] = {"lm_head"}; // the table has no word
  write_file_atomic(file, config.dump());
  test::expect_error(Code::unimplemented, "model.embed_tokens.weight is not a matrix of LoRA",
                     [&] { load_adapter(*tied_base(), "default", place); });
  config["modules_to_save"] = {"embed_tokens"};
  config[kTiesWeights] = false;
  write_file_atomic(file, config.dump());
  test::expect_error(Code::unimplemented, "lm_head.weight is not a matrix of LoRA",
                     [&] { load_adapter(*tied_base(), "default", place); });
}

// PEFT without ensure_weight_tying leaves the other matrix as the base has it, or trains two.
TEST(TiedCopy, AnUntiedAdapterIsRefused) {
  struct Row {
    const char* without;
    bool moves_head, ties;
    const char* said; // "": it is loaded
  };
  const Row rows[] = {{"none", false, false, ""},
                      {"none", false, true, ""},
                      {"lm_head.weight", false, true, ""},
                      {"lm_head.weight", false, false, "a copy of the embedding alone"},
                      {"embed_tokens.weight", false, false, "a copy of the head alone"},
                      {"embed_tokens.weight", false, true, "a copy of the head alone"},
                      {"none", true, false, "copies of both differ"},
                      {"none", true, true, "copies of both differ"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.said);
    const test::TempFolder folder;
    const std::string place = folder.path("adapter");
    const auto model = with_moved_copy();
    save_adapter(*model, "default", place);
    rewrite(place, row.without, row.moves_head, row.ties);
    const auto other = tied_base();
    const auto load = [&] { load_adapter(*other, "default", place); };
    if (row.said[0] == '\0') {
      load();
      EXPECT_TRUE(test::same_bytes(tied_logits(*other), tied_logits(*model)));
      continue;
    }
    const Error error = test::error_of(load);
    EXPECT_EQ(error.code(), Code::unimplemented);
    EXPECT_NE(error.text().find(row.said), std::string::npos) << error.text();
    EXPECT_NE(error.hint().find("merge_and_unload"), std::string::npos) << error.hint();
    EXPECT_TRUE(list_adapters(*other).empty());
  }
}

} // namespace
} // namespace dllm::model
