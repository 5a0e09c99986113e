// Towers: networks without a vocabulary, as parts of a model. A small autoencoder of hidden states
// has one of each kind: latents with cross attention, a noise level that is added, one that is
// adaptive, and a decoder of tokens.

#include "base/files.h"
#include "base/json.h"
#include "ckpt/weights_on_disk.h"
#include "graph/ops.h"
#include "losses/loss_difference.h"
#include "noise/loss/evaluate.h"
#include "noise/loss/token_ce.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/noise/tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <map>

namespace dllm::train {
namespace {

constexpr int64_t kHidden = 24, kLatents = 6, kLatentDim = 5;

Json tower(const Json& more) {
  Json config = {{"model_type", "dllm_tower"},   {"hidden_size", 16},
                 {"num_hidden_layers", 2},       {"num_attention_heads", 4},
                 {"intermediate_size", 24},      {"initializer_range", 0.3},
                 {"max_position_embeddings", 64}};
  config.update(more);
  return config;
}

std::map<std::string, Json> tower_configs() {
  const Json out = {{"z", {{"rows", kLatentDim}, {"bias", true}}}};
  return {
      {"encoder", tower({{"latents", kLatents},
                         {"context_size", kHidden},
                         {"mixer", "self_cross_attention"},
                         {"last_norm", false},
                         {"dllm", {{"heads", out}}}})},
      {"denoiser", tower({{"level", "adaptive"},
                          {"level_size", 8},
                          {"positions", "rotary"},
                          {"inputs", {{"z", {{"size", kLatentDim}}}}},
                          {"dllm", {{"heads", out}}}})},
      {"reader", tower({{"level", "added"},
                        {"positions", "learned"},
                        {"norm", "rms"},
                        {"gated_mlp", true},
                        {"hidden_act", "silu"},
                        {"context_size", kLatentDim},
                        {"mixer", "cross_attention"},
                        {"inputs", {{"states", {{"size", kHidden}, {"bias", false}}}}},
                        {"dllm", {{"heads", {{"lm", {{"rows", 31}}}}}}}})},
  };
}

// Encodes the states of the base, moves the latents by a denoiser, and reads the tokens back. All
// networks of one loss.
class Autoencoder final : public noise::Objective {
public:
  // part: the name of a part of its loss; "": it has none.
  explicit Autoencoder(std::string part = "")
      : Autoencoder(noise::make_objective("ar"), std::move(part)) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  std::vector<std::string> other_parts() const override {
    return {"encoder", "denoiser", "reader"};
  }
  std::vector<std::string> trained_parts() const override {
    return {"base", "encoder", "denoiser", "reader"};
  }
  std::map<std::string, Json> new_parts(const model::ModelConfig&) const override {
    return tower_configs();
  }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const noise::PrepareContext& context) const override {
    return plain_->prepare(batch, seed, step, context);
  }

protected:
  noise::Loss build_loss(model::Builder& builder, const noise::LossInputs& inputs) const override {
    graph::Graph& graph = builder.graph();
    const graph::Value states = builder.forward(inputs.tokens).hidden;
    const int64_t batch = states.dim(0), seq = states.dim(1);
    model::Builder &encoder = builder.part("encoder"), &denoiser = builder.part("denoiser"),
                   &reader = builder.part("reader");
    model::ForwardInputs encode;
    encode.context = states;
    const graph::Value z = model::product(encoder.head("z"), encoder.forward(encode).hidden);
    model::ForwardInputs move;
    move.embeddings = model::product(denoiser.input("z"), z);
    move.levels = graph::full(graph, {batch, 2}, 0.3f);
    const graph::Value moved = model::product(denoiser.head("z"), denoiser.forward(move).hidden);
    model::ForwardInputs read;
    read.embeddings = model::product(reader.input("states"), states);
    read.context = moved;
    read.levels = graph::full(graph, {batch}, 0.7f);
    const graph::Value hidden = reader.forward(read).hidden;
    const graph::Value rows =
        graph::take(graph::reshape(hidden, {batch * seq, hidden.dim(2)}), inputs.head_rows);
    noise::Loss loss;
    loss.sum =
        graph::sum(graph::multiply(model::cross_entropy(reader.head("lm"), rows,
                                                        inputs.head_targets, inputs.head_count),
                                   inputs.head_weights),
                   {0});
    loss.normalizer = graph::sum(inputs.normalizer, {0});
    if (!part_.empty()) loss.parts.push_back({part_, loss.sum, loss.normalizer});
    return loss;
  }

private:
  Autoencoder(const noise::ObjectiveRef& plain, std::string part)
      : Objective(plain->schedule(), plain->options()), plain_(plain), part_(std::move(part)) {}

  std::string name_ = "autoencoder";
  noise::ObjectiveRef plain_;
  std::string part_;
};

std::shared_ptr<model::Model>
base_model(const std::shared_ptr<graph::Engine>& engine = tiny_engine()) {
  Options options(model::model_schema());
  options.set_i64("seed", 1);
  return model::new_model(engine, tiny_config(), options);
}

std::unique_ptr<Trainer> tower_trainer(const std::shared_ptr<model::Model>& model,
                                       const Json& values = Json::object()) {
  return std::make_unique<Trainer>(model, std::make_shared<Autoencoder>(), trainer_options(values));
}

TEST(Towers, AreMadeByTheTrainerAndNamedInTheModel) {
  const auto model = base_model();
  const std::vector<std::string> before = model->parts().names();
  const auto trainer = tower_trainer(model);
  EXPECT_EQ(model->parts().names(),
            (std::vector<std::string>{"base", "denoiser", "encoder", "reader"}));
  const Tensor latents = model->params().read("encoder/latents");
  EXPECT_EQ(latents.shape(), (Shape{kLatents, 16}));
  const Tensor gate =
      model->params().read("denoiser/layers.0.attention.attention_norm.gate.weight");
  EXPECT_EQ(std::ranges::count(gate.as<float>(), 0.0f), gate.count());
  // A trainer that cannot be made leaves the model as it was.
  const auto other = base_model();
  EXPECT_THROW(tower_trainer(other, {{"freeze", {"nothing.*"}}}), Error);
  EXPECT_EQ(other->parts().names(), before);
}

TEST(Towers, HaveTheGradientOfEveryParameter) {
  const auto model = base_model();
  const auto objective = std::make_shared<Autoencoder>();
  for (const auto& [name, config] : objective->new_parts(model->config()))
    model::add_new_network(*model, name, config, 5);
  // AdaLN-zero begins as the identity, where most gradients are 0.
  uint64_t number = 0;
  for (const std::string& name : model->params().names("denoiser")) {
    Tensor values = model->params().read(name).to(DType::f32).clone();
    for (float& value : values.mutable_as<float>())
      value += 0.2f * std::sin(static_cast<float>(++number));
    model->params().write(name, values);
  }
  noise::LossRunner runner(model, objective);
  TextSource source;
  const Batch prepared =
      objective->prepare(*source.next(), 0, 0, noise::prepare_context(*objective, model->config()));
  noise::expect_gradient(*model, runner, *objective, prepared);
}

TEST(Towers, AreSavedWithTheBaseAndLoaded) {
  const test::TempFolder folder;
  const auto model = base_model();
  const auto trainer = tower_trainer(model);
  TextSource source;
  losses_of(*trainer, source, 2);
  model::save_model(*model, folder.path("m"), Options(model::save_schema()));
  const auto loaded =
      model::load_model(model->engine_ref(), folder.path("m"), Options(model::model_schema()));
  EXPECT_EQ(weights_of(*loaded), weights_of(*model));
  EXPECT_EQ(loaded->parts().names(), model->parts().names());
  EXPECT_EQ(model::config_to_json(loaded->parts().find("reader")->config),
            model::config_to_json(model->parts().find("reader")->config));
  // A folder whose config lacks a tower that its files have does not lose it without a word.
  Json config = parse_json(read_text(folder.path("m/config.json"), 1 << 20), "config.json");
  Json without = config;
  without["dllm"]["parts"].erase("reader");
  write_file_atomic(folder.path("m/config.json"), without.dump());
  test::expect_error(Code::data_loss, "unexpected tensor reader/", [&] {
    model::load_model(model->engine_ref(), folder.path("m"), Options(model::model_schema()));
  });
  write_file_atomic(folder.path("m/config.json"), config.dump());
  // It is a base of another run, which goes on with the towers.
  const auto again = tower_trainer(loaded);
  TextSource rows;
  const std::vector<double> losses = losses_of(*again, rows, 2);
  save_checkpoint(*again, nullptr, folder.path("run"), Options(checkpoint_schema()));
  const auto resumed =
      model::load_model(model->engine_ref(), folder.path("run"), Options(model::model_schema()));
  EXPECT_EQ(weights_of(*resumed), weights_of(*loaded));
}

TEST(Towers, APartOfALossDoesNotReplaceANumberOfTheTrainer) {
  const auto model = base_model();
  TextSource source;
  Trainer named(model, std::make_shared<Autoencoder>("reading"), trainer_options());
  losses_of(named, source, 1);
  EXPECT_GT(named.metric("reading"), 0);
  EXPECT_EQ(named.metric("tokens"), 64);
  Trainer taken(model, std::make_shared<Autoencoder>("tokens"), trainer_options());
  test::expect_error(Code::invalid_argument, "the name tokens",
                     [&] { losses_of(taken, source, 1); });
}

TEST(Towers, TrainAlikeOnMeshes) {
  std::vector<double> alone;
  {
    const auto trainer = tower_trainer(base_model());
    TextSource source;
    alone = losses_of(*trainer, source, 3);
  }
  for (const char* mesh : {"data=2", "fsdp=2", "tensor=2"}) {
    const auto trainer = tower_trainer(base_model(mesh_engine(mesh)));
    TextSource source;
    expect_losses(losses_of(*trainer, source, 3), alone, mesh);
  }
}

TEST(Towers, AFileWithABadTowerIsRefused) {
  const auto refused = [](const Json& more, const std::string& part) {
    Json config = tiny_config();
    config["dllm"]["parts"]["encoder"] = tower(more);
    test::expect_error(Code::invalid_argument, part,
                       [&] { model::config_from_json(config, "config.json"); });
  };
  for (const char* name : {"base", "adapter:math", "a/b", "", "a b"}) {
    Json config = tiny_config();
    config["dllm"]["parts"][name] = tower(Json::object());
    test::expect_error(Code::invalid_argument, "other than base",
                       [&] { model::config_from_json(config, "config.json"); });
  }
  Json many = tiny_config();
  for (int part = 0; part < 65; ++part)
    many["dllm"]["parts"]["p" + std::to_string(part)] = tower(Json::object());
  test::expect_error(Code::invalid_argument, "at most 64 networks",
                     [&] { model::config_from_json(many, "config.json"); });
  refused({{"num_attention_heads", 3}}, "part encoder: num_attention_heads is 3");
  refused({{"mixer", "cross_attention"}}, "context_size");
  refused({{"mixer", "gated_delta"}}, "mixer");
  refused({{"level", "many"}}, "level is \"many\", expected one of: none added adaptive");
  refused({{"inputs", {{"z", {{"size", 0}}}}}}, "inputs.z.size is 0");
  refused({{"dllm", {{"parts", {{"a", tower(Json::object())}}}}}}, "without parts of its own");
}

} // namespace
} // namespace dllm::train
