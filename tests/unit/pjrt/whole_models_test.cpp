// Whole models: forward passes, training and decoding with lowered programs on the CPU engine, and
// on every plugin that is there, against the CPU engine as it is.

#include "graph/ops.h"
#include "model/adapters/adapter.h"
#include "model/network/builder.h"
#include "pjrt/engine.h"
#include "unit/decode/requests.h"
#include "unit/model/model_tools.h"
#include "unit/pjrt/lower/lowered_engine.h"
#include "unit/pjrt/plugins.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::pjrt {
namespace {

class WholeModels : public ::testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (GetParam() == "lowered") {
      engine_ = std::make_shared<LoweredEngine>();
      return;
    }
    const std::string path = plugin_path(kPlugins[GetParam() == "oldest" ? 0 : 1]);
    if (!file_exists(path)) GTEST_SKIP() << path << " is not there";
    Options options(graph::engine_schema());
    options.set_str("plugin", path);
    options.set_str("pjrt.cache", "off");
    engine_ = make_engine(options);
  }
  // Compilers take seconds for each.
  std::vector<const char*> few_formats() const {
    if (GetParam() != "lowered") return {"nf4"};
    return {"nf4", "q8_0", "q4_0"};
  }
  std::shared_ptr<graph::Engine> engine_;
};

// Largest difference over the largest number.
double distance(std::span<const float> got, std::span<const float> want) {
  EXPECT_EQ(got.size(), want.size());
  double worst = 0, most = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    worst = std::max(worst, static_cast<double>(std::fabs(got[i] - want[i])));
    most = std::max(most, static_cast<double>(std::fabs(want[i])));
  }
  return worst / most;
}

// Compilers take a second for each; what these leave out, the lowered programs are asked.
const std::vector<std::string> kFewFamilies{"llama",       "gpt2",     "nano-dlm",  "llada",
                                            "gemma3_text", "lladamoe", "llada2_moe"};
const std::vector<std::string> kFamilies{
    "llama",  "qwen2",       "qwen3",    "gpt2",      "nano-dlm", "llada",     "Dream",
    "gemma2", "gemma3_text", "lladamoe", "qwen3_moe", "dllm_moe", "llada2_moe"};

Tensor logits(std::shared_ptr<graph::Engine> engine, const std::string& family,
              const std::string& dtype) {
  const auto model =
      model::new_model(std::move(engine), test::small_config(family),
                       test::model_options({{"seed", "5"}, {"dtype", dtype.c_str()}}));
  Batch batch = test::small_ids(2, 7, 20);
  if (model->config().time_conditioning)
    batch.set("timesteps", Tensor::from(Shape{2}, std::vector<float>{3, 41}));
  return model::forward(*model, batch, Options(model::forward_schema())).at("logits");
}

// A model of whole blocks of 64, in codes.
std::shared_ptr<model::Model> coded_model(std::shared_ptr<graph::Engine> engine,
                                          const char* dtype) {
  Json config = test::small_config("qwen3");
  config.update({{"vocab_size", 31},
                 {"hidden_size", 64},
                 {"intermediate_size", 128},
                 {"initializer_range", 0.1},
                 {"mask_token_id", 30}});
  return model::new_model(std::move(engine), config,
                          test::model_options({{"seed", "5"}, {"dtype", dtype}}));
}

Tensor coded_logits(std::shared_ptr<graph::Engine> engine, const char* dtype) {
  return model::forward(*coded_model(std::move(engine), dtype), test::small_ids(2, 7, 20),
                        Options(model::forward_schema()))
      .at("logits");
}

TEST_P(WholeModels, Logits) {
  const bool lowered = GetParam() == "lowered";
  for (const std::string& family : lowered ? kFamilies : kFewFamilies) {
    const Tensor got = logits(engine_, family, "f32"),
                 want = logits(test::small_engine(), family, "f32");
    EXPECT_LE(distance(got.as<float>(), want.as<float>()), 2e-5) << family;
  }
  for (const char* dtype : {"bf16", "int8"}) {
    const Tensor got = logits(engine_, "qwen3_moe", dtype),
                 want = logits(test::small_engine(), "qwen3_moe", dtype);
    EXPECT_LE(distance(got.as<float>(), want.as<float>()), 2e-5) << dtype;
  }
  for (const char* dtype : {"nf4", "fp4", "q8_0"}) {
    const Tensor got = coded_logits(engine_, dtype),
                 want = coded_logits(test::small_engine(), dtype);
    EXPECT_LE(distance(got.as<float>(), want.as<float>()), 2e-5) << dtype;
  }
}

// Loss of the next token and its gradients by every parameter.
std::vector<Tensor> gradients(std::shared_ptr<graph::Engine> engine, const std::string& family) {
  const auto model = model::new_model(std::move(engine), test::small_config(family),
                                      test::model_options({{"seed", "5"}}));
  constexpr int64_t kRows = 2, kLength = 6;
  auto graph = std::make_shared<graph::Graph>("gradients");
  model::Builder builder(*graph, *model);
  model::ForwardInputs inputs;
  inputs.ids = graph->input("ids", DType::i32, {kRows, kLength});
  inputs.mask = graph::Mask::causal();
  const graph::Value targets = graph->input("targets", DType::i32, {kRows * kLength});
  const graph::Value hidden = graph::reshape(builder.forward(inputs).hidden,
                                             {kRows * kLength, model->config().hidden_size});
  const model::Head head = builder.head();
  const graph::Value loss =
      graph::sum(graph::linear_cross_entropy(hidden, head.weight, head.bias, head.scale, targets,
                                             {}, head.softcap),
                 {0});
  graph->output("loss", loss);
  for (const graph::Value& gradient : graph::gradients(loss, builder.parameters()))
    graph->output("gradient" + std::to_string(graph->outputs().size()), gradient);

  const auto program = model->engine().compile(graph);
  std::vector<graph::BufferRef> feed = model->params().snapshot();
  const Batch rows = test::small_ids(kRows, kLength, 20);
  std::vector<int32_t> next(rows.at("ids").as<int32_t>().begin(),
                            rows.at("ids").as<int32_t>().end());
  feed.push_back(model->engine().upload(rows.at("ids")));
  std::rotate(next.begin(), next.begin() + 1, next.end());
  feed.push_back(model->engine().upload(Tensor::from(Shape{kRows * kLength}, next)));
  std::vector<Tensor> made;
  for (const graph::BufferRef& result : program->run(feed)) made.push_back(result->read());
  return made;
}

TEST_P(WholeModels, Gradients) {
  for (const char* family : {"qwen2", "gpt2", "gemma3_text", "lladamoe"}) {
    const std::vector<Tensor> got = gradients(engine_, family),
                              want = gradients(test::small_engine(), family);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(distance(got[i].as<float>(), want[i].as<float>()), 1e-4) << family << " " << i;
    }
  }
}

struct Steps {
  std::vector<float> losses, norms;
  std::map<std::string, std::vector<float>> weights;
};

Steps five_steps(std::shared_ptr<graph::Engine> engine, const std::string& objective,
                 const Json& config, const Json& options) {
  train::Trainer trainer(
      model::new_model(std::move(engine), config, Options(model::model_schema())),
      noise::make_objective(objective), train::trainer_options(options));
  train::TextSource source;
  Steps made;
  for (int i = 0; i < 5; ++i) {
    made.losses.push_back(static_cast<float>(trainer.step(*source.next())));
    made.norms.push_back(static_cast<float>(trainer.metric("grad_norm")));
  }
  made.weights = train::weights_of(trainer);
  return made;
}

void expect_same_steps(const Steps& got, const Steps& want, const std::string& what) {
  EXPECT_LE(distance(got.losses, want.losses), 2e-5) << what;
  EXPECT_LE(distance(got.norms, want.norms), 1e-4) << what;
  for (const auto& [name, numbers] : want.weights) {
    // AdamW's first steps move by the sign of a gradient, however small: a gradient that is all
    // rounding moves a weight by up to 5 lr = 0.015 either way.
    EXPECT_LE(distance(got.weights.at(name), numbers), 2e-3) << what << " " << name;
  }
}

Json small_training_config() {
  Json config = test::small_config("qwen3");
  config.update({{"vocab_size", 31}, {"initializer_range", 0.1}, {"mask_token_id", 30}});
  return config;
}

TEST_P(WholeModels, FiveTrainingSteps) {
  for (const char* objective : {"mdlm", "ar"}) {
    const Json config = small_training_config(), none = Json::object();
    expect_same_steps(five_steps(engine_, objective, config, none),
                      five_steps(test::small_engine(), objective, config, none), objective);
  }
  Json experts = test::small_config("qwen3_moe");
  experts.update({{"vocab_size", 31}, {"initializer_range", 0.1}, {"mask_token_id", 30}});
  const Json remat{{"remat", true}};
  expect_same_steps(five_steps(engine_, "mdlm", experts, remat),
                    five_steps(test::small_engine(), "mdlm", experts, remat), "experts, remat");
}

// Adapters of a base in codes: the same losses and the same adapters after five steps. The base
// stays as it is, and no f32 copy of it exists.
TEST_P(WholeModels, AdaptersOfCodes) {
  for (const char* dtype : few_formats()) {
    const auto steps = [&](std::shared_ptr<graph::Engine> engine) {
      const auto model = coded_model(std::move(engine), dtype);
      model::add_adapter(*model, {{"*_proj.weight"}, {4, 8}, 1});
      const int64_t bytes = model->params().bytes();
      const Tensor before = model->params().read("model.layers.1.mlp.up_proj.weight").clone();
      train::Trainer trainer(model, noise::make_objective("mdlm"),
                             train::trainer_options({{"lr", 0.01}}));
      EXPECT_LE(model->params().bytes(), bytes); // the trainer has the adapters
      train::TextSource source;
      Steps made;
      for (int i = 0; i < 5; ++i) {
        made.losses.push_back(static_cast<float>(trainer.step(*source.next())));
        made.norms.push_back(static_cast<float>(trainer.metric("grad_norm")));
      }
      EXPECT_LT(made.losses.back(), made.losses.front());
      const Tensor after = model->params().read("model.layers.1.mlp.up_proj.weight");
      EXPECT_TRUE(std::ranges::equal(after.as<float>(), before.as<float>()));
      for (const Json& row : Json(model->describe().at("storage"))) {
        if (row.at("name") != "layers.q") continue;
        EXPECT_EQ(row.at("format"), dtype);
      }
      for (const std::string& name : model->params().names("adapter:default")) {
        const Tensor values = model->params().read(name);
        made.weights[name].assign(values.as<float>().begin(), values.as<float>().end());
      }
      return made;
    };
    expect_same_steps(steps(engine_), steps(test::small_engine()), dtype);
  }
}

// Two requests of one length: on a plugin every new shape is compiled.
std::vector<int32_t> tokens(std::shared_ptr<graph::Engine> engine, const Json& options) {
  const auto model =
      model::new_model(std::move(engine), decode::tiny_config(), Options(model::model_schema()));
  const auto decoder = decode::make_decoder(model, options);
  decode::add(*decoder, {{3, 5, 7, 9}, 11, 8});
  decode::add(*decoder, {{4, 6, 8, 10}, 12, 8});
  decoder->run();
  std::vector<int32_t> ids = decode::answer_of(*decoder, 0).ids;
  const std::vector<int32_t> other = decode::answer_of(*decoder, 1).ids;
  ids.insert(ids.end(), other.begin(), other.end());
  return ids;
}

TEST_P(WholeModels, TheSameTokens) {
  std::vector<Json> requests{
      {{"policy", "low_confidence"},
       {"block_length", 4},
       {"temperature", 0.8},
       {"top_p", 0.9},
       {"top_k", 20}},
      {{"policy", "spd"}, {"block_length", 4}},
  };
  if (GetParam() == "lowered") {
    requests.push_back({{"policy", "low_confidence"}, {"block_length", 4}, {"steps", 8}});
    requests.push_back({{"policy", "threshold"}, {"block_length", 4}});
    requests.push_back({{"policy", "autoregressive"}, {"temperature", 1.0}});
  }
  for (const Json& options : requests)
    EXPECT_EQ(tokens(engine_, options), tokens(test::small_engine(), options)) << options.dump();
}

TEST_P(WholeModels, TheSameTokensOfCodes) {
  for (const char* dtype : few_formats()) {
    const auto answer = [&](std::shared_ptr<graph::Engine> engine) {
      const auto decoder =
          decode::make_decoder(coded_model(std::move(engine), dtype),
                               Json{{"policy", "low_confidence"}, {"block_length", 4}});
      decode::add(*decoder, {{3, 5, 7, 9}, 11, 8});
      decoder->run();
      return decode::answer_of(*decoder, 0).ids;
    };
    EXPECT_EQ(answer(engine_), answer(test::small_engine())) << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, WholeModels, ::testing::Values("lowered", "oldest", "newest"),
                         [](const auto& info) { return info.param; });

} // namespace
} // namespace dllm::pjrt
