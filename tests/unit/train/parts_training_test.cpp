// An objective that trains two networks: the encoder's states are added to the base's embeddings.

#include "base/files.h"
#include "base/log.h"
#include "ckpt/weights_on_disk.h"
#include "graph/ops.h"
#include "losses/loss_difference.h"
#include "model/adapters/adapter.h"
#include "model/files/quantize.h"
#include "noise/loss/evaluate.h"
#include "noise/loss/token_ce.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/noise/tiny.h"
#include "unit/test_files.h"
#include "unit/test_tensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

namespace dllm::train {
namespace {

class WithEncoder final : public noise::Objective {
public:
  explicit WithEncoder(std::vector<std::string> trained = {"base", "encoder"})
      : WithEncoder(noise::make_objective("mdlm"), std::move(trained)) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return true; }
  std::vector<std::string> other_parts() const override { return {"encoder"}; }
  std::vector<std::string> trained_parts() const override { return trained_; }
  model::AttentionKind attention(const model::ModelConfig&) const override {
    return model::AttentionKind::bidirectional;
  }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const noise::PrepareContext& context) const override {
    return plain_->prepare(batch, seed, step, context);
  }

protected:
  noise::Loss build_loss(model::Builder& builder, const noise::LossInputs& inputs) const override {
    noise::LossInputs own = inputs;
    own.tokens.embeddings = graph::add(builder.embed(inputs.tokens.ids),
                                       builder.part("encoder").forward(inputs.tokens).hidden);
    own.tokens.ids = {};
    return noise::token_ce_loss(builder, own);
  }

private:
  WithEncoder(const noise::ObjectiveRef& plain, std::vector<std::string> trained)
      : Objective(plain->schedule(), plain->options()), plain_(plain),
        trained_(std::move(trained)) {}

  std::string name_ = "with_encoder";
  noise::ObjectiveRef plain_;
  std::vector<std::string> trained_;
};

// Its sizes are those of two ranks too.
Json size_config(int64_t layers) {
  Json config = tiny_config();
  config.update({{"vocab_size", 32},
                 {"hidden_size", 16},
                 {"num_key_value_heads", 4},
                 {"num_hidden_layers", layers}});
  return config;
}

std::shared_ptr<model::Model> random_model(const std::shared_ptr<graph::Engine>& engine,
                                           const Json& config, int64_t seed) {
  Options options(model::model_schema());
  options.set_i64("seed", seed);
  return model::new_model(engine, config, options);
}

std::shared_ptr<model::Model>
with_encoder(const std::shared_ptr<graph::Engine>& engine = tiny_engine(), int64_t seed = 3) {
  const auto model = random_model(engine, size_config(2), 1);
  model->add_network("encoder", *random_model(engine, size_config(3), seed));
  return model;
}

std::unique_ptr<Trainer> encoder_trainer(const std::shared_ptr<model::Model>& model,
                                         const Json& values = Json::object()) {
  return std::make_unique<Trainer>(model, std::make_shared<WithEncoder>(), trainer_options(values));
}

// Returns the tensors whose numbers differ.
std::vector<std::string> moved(const std::map<std::string, std::vector<float>>& before,
                               const std::map<std::string, std::vector<float>>& after) {
  std::vector<std::string> names;
  for (const auto& [name, values] : after) {
    if (values != before.at(name)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> names_of(const model::Model& model, const std::string& part) {
  std::vector<std::string> names = model.params().names(part);
  std::ranges::sort(names);
  return names;
}

// Returns the names of the tensors that two steps move.
std::vector<std::string> moved_by(const std::vector<std::string>& trained, const Json& values) {
  const auto model = with_encoder();
  const auto before = weights_of(*model);
  Trainer trainer(model, std::make_shared<WithEncoder>(trained), trainer_options(values));
  TextSource source;
  losses_of(trainer, source, 2);
  return moved(before, weights_of(trainer));
}

TEST(PartsTraining, TrainsThePartsOfTheObjective) {
  const auto model = with_encoder();
  std::vector<std::string> all = model->params().names();
  std::ranges::sort(all);
  EXPECT_EQ(moved_by({"base", "encoder"}, Json::object()), all);
  EXPECT_EQ(moved_by({"encoder"}, Json::object()), names_of(*model, "encoder"));
  EXPECT_EQ(moved_by({"base"}, Json::object()), names_of(*model, "base"));
  for (const char* optimizer : {"muon", "adafactor", "lion"})
    EXPECT_EQ(moved_by({"base", "encoder"}, {{"optimizer", optimizer}}), all) << optimizer;
}

TEST(PartsTraining, TheEncoderIsTrainedWithAnAdapter) {
  const auto model = with_encoder();
  model::add_adapter(*model, {{"*.q_proj.weight"}, {2, 4}, 1});
  const auto before = weights_of(*model);
  const auto trainer = encoder_trainer(model, {{"lr", 0.02}});
  TextSource source;
  losses_of(*trainer, source, 3);
  std::vector<std::string> wanted = names_of(*model, "encoder");
  std::ranges::copy(names_of(*model, "adapter:default"), std::back_inserter(wanted));
  std::ranges::sort(wanted);
  EXPECT_EQ(moved(before, weights_of(*trainer)), wanted);
  for (const Json& row : Json(model->describe().at("storage"))) {
    const auto name = row.at("name").get<std::string>();
    EXPECT_EQ(row.at("trainable"), name.find('/') != std::string::npos) << name;
  }
}

TEST(PartsTraining, PatternsNameLayersOfEveryPart) {
  const auto model = with_encoder();
  const auto without = [&](const std::string& pattern) {
    std::vector<std::string> names = model->params().names();
    std::erase_if(names, [&](const auto& name) { return model::name_matches(pattern, name); });
    std::ranges::sort(names);
    return names;
  };
  for (const char* pattern : {"encoder/*", "model.*", "encoder/model.layers.1.*",
                              "*model.layers.1.*", "*.q_proj.weight"}) {
    EXPECT_EQ(moved_by({"base", "encoder"}, {{"freeze", {pattern}}}), without(pattern)) << pattern;
    const std::string group = std::string(pattern) + " lr=0";
    EXPECT_EQ(moved_by({"base", "encoder"}, {{"groups", {group}}}), without(pattern)) << group;
  }
  const Error error = test::error_of([] { moved_by({"encoder"}, {{"freeze", {"encoder/*"}}}); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
}

TEST(PartsTraining, TheGradientsAreDifferencesOfTheLoss) {
  const auto model = with_encoder();
  const auto objective = std::make_shared<WithEncoder>();
  noise::LossRunner runner(model, objective);
  TextSource source(2, 8);
  const Batch prepared =
      objective->prepare(*source.next(), 1, 0, noise::prepare_context(*objective, model->config()));
  const auto got = noise::loss_gradients(*model, *objective, prepared);
  EXPECT_EQ(got.gradients.size(), model->params().names().size());
  int64_t steep = 0; // gradients of the encoder that the differences can see
  for (const auto& [name, gradient] : got.gradients) {
    double squares = 0;
    for (const float x : gradient.as<float>()) squares += static_cast<double>(x) * x;
    steep += name.starts_with("encoder/") && squares > 1e-4 ? 1 : 0;
  }
  EXPECT_GT(steep, 25);
  noise::expect_gradient(*model, runner, *objective, prepared);
}

TEST(PartsTraining, AnObjectiveTrainsOnlyPartsThatItReads) {
  const auto model = with_encoder();
  model->add_network("decoder", *random_model(model->engine_ref(), size_config(1), 2));
  const Json before = model->describe();
  test::expect_error(Code::internal, "trains part decoder, which its loss does not read", [&] {
    Trainer(model, std::make_shared<WithEncoder>(std::vector<std::string>{"base", "decoder"}),
            trainer_options());
  });
  EXPECT_EQ(model->describe(), before);
}

// The arrays are shared until one of the models is trained.
TEST(PartsTraining, TheModelThatGaveTheEncoderStays) {
  const auto engine = tiny_engine();
  const auto model = random_model(engine, size_config(2), 1),
             encoder = random_model(engine, size_config(3), 3);
  model->add_network("encoder", *encoder);
  const auto before = weights_of(*encoder);
  const auto trainer = encoder_trainer(model);
  TextSource source;
  losses_of(*trainer, source, 2);
  EXPECT_EQ(weights_of(*encoder), before);
}

// Another trainer may have cut the layers of the model that becomes a part.
TEST(PartsTraining, ANetworkWithCutLayersIsRead) {
  const auto losses = [](const Json& freeze) {
    const auto engine = tiny_engine();
    const auto model = random_model(engine, size_config(2), 1),
               encoder = random_model(engine, size_config(3), 3);
    const Trainer cutter(encoder, noise::make_objective("mdlm"),
                         trainer_options({{"freeze", freeze}}));
    model->add_network("encoder", *encoder);
    const auto trainer = encoder_trainer(model);
    TextSource source;
    return losses_of(*trainer, source, 3);
  };
  EXPECT_EQ(losses({"model.layers.1.*"}), losses({"model.norm.weight"}));
}

// A run that is cut in two has the losses, weights and averages of one that is not.
TEST(PartsTraining, ACheckpointHoldsBothNetworks) {
  const test::TempFolder folder;
  const Json settings[] = {{{"ema", 0.9}},
                           {{"ema", 0.9}, {"offload", "ram"}},
                           {{"freeze", {"encoder/model.layers.1.*"}}},
                           {{"optimizer", "muon"}}};
  for (const Json& values : settings) {
    SCOPED_TRACE(values.dump());
    const auto whole = encoder_trainer(with_encoder(), values);
    TextSource source;
    losses_of(*whole, source, 3);
    const auto saved = weights_of(*whole);
    const std::string dir =
        save_checkpoint(*whole, nullptr, folder.path(std::to_string(&values - settings)),
                        Options(checkpoint_schema()));
    const std::vector<double> wanted = losses_of(*whole, source, 3);

    const auto second = encoder_trainer(with_encoder(tiny_engine(), 8), values);
    EXPECT_NE(weights_of(*second), saved);
    restore_checkpoint(*second, nullptr, dir);
    EXPECT_EQ(weights_of(*second), saved);
    source.seek(3);
    EXPECT_EQ(losses_of(*second, source, 3), wanted);
    EXPECT_EQ(weights_of(*second), weights_of(*whole));
    if (!values.contains("ema")) continue;
    const auto averages = weights_of(*whole->model("ema"));
    EXPECT_EQ(weights_of(*second->model("ema")), averages);
    EXPECT_EQ(moved(weights_of(*whole), averages).size(), saved.size());
  }
}

TEST(PartsTraining, OnAMeshTheLossIsThatOfOneRank) {
  const auto losses = [](const std::shared_ptr<graph::Engine>& engine) {
    const auto trainer = encoder_trainer(with_encoder(engine));
    TextSource source;
    return losses_of(*trainer, source, 4);
  };
  const std::vector<double> alone = losses(tiny_engine());
  for (const char* mesh : {"data=2", "fsdp=2", "tensor=2"})
    expect_losses(losses(mesh_engine(mesh)), alone, mesh);
}

Tensor logits_of(model::Model& model, const std::string& part) {
  TextSource source(2, 8);
  Options options(model::forward_schema()); // a trainer sets both in its model
  options.set_str("attention", "bidirectional");
  options.set_i64("shift", 0);
  if (part == "base") return model::forward(model, *source.next(), options).at("logits").clone();
  const auto config = model.parts().find(part)->config;
  const auto alone = model::new_model(model.engine_ref(), model::config_to_json(config),
                                      Options(model::model_schema()));
  for (const std::string& name : alone->params().names())
    alone->params().write(name, model.params().read(part + "/" + name));
  return model::forward(*alone, *source.next(), options).at("logits").clone();
}

std::shared_ptr<model::Model> loaded(const std::string& path, const Json& values = Json::object()) {
  Options options(model::model_schema());
  options.set_json(values);
  return model::load_model(tiny_engine(), path, options);
}

std::string saved(const std::shared_ptr<model::Model>& model, const std::string& path) {
  model::save_model(*model, path, Options(model::save_schema()));
  return path;
}

// The path of a run is enough for all networks that passes may read, and to go on.
TEST(PartsTraining, ARunIsLoadedWithItsNetworks) {
  const test::TempFolder folder;
  const auto model = with_encoder();
  model->add_network("teacher", *random_model(model->engine_ref(), size_config(1), 4));
  const auto whole = encoder_trainer(model, {{"ema", 0.9}});
  TextSource source;
  losses_of(*whole, source, 3);
  const std::string root = folder.path("run"),
                    dir = save_checkpoint(*whole, nullptr, root, Options(checkpoint_schema()));
  for (const std::string& path : {dir, root}) {
    const auto opened = loaded(path);
    EXPECT_EQ(opened->parts().names(), (std::vector<std::string>{"base", "encoder"}));
    for (const char* part : {"base", "encoder"})
      EXPECT_TRUE(test::same_bytes(logits_of(*opened, part), logits_of(*model, part))) << part;
    EXPECT_FALSE(opened->origin_of("encoder")); // its run may remove the checkpoint
  }
  EXPECT_EQ(loaded(root, {{"dtype", "bf16"}})->params().read("encoder/model.norm.weight").dtype(),
            DType::f32);
  auto averages = weights_of(*whole->model("ema"));
  std::erase_if(averages, [](const auto& entry) { return entry.first.starts_with("teacher/"); });
  EXPECT_EQ(weights_of(*loaded(root, {{"weights", "ema"}})), averages);

  const std::vector<double> wanted = losses_of(*whole, source, 3);
  const auto again = loaded(root); // with the teacher after the encoder
  again->add_network("teacher", *random_model(again->engine_ref(), size_config(1), 4));
  const auto second = encoder_trainer(again, {{"ema", 0.9}});
  restore_checkpoint(*second, nullptr, dir);
  source.seek(3);
  EXPECT_EQ(losses_of(*second, source, 3), wanted);
  EXPECT_EQ(weights_of(*second), weights_of(*whole));
}

// Networks that the run does not train are loaded from their places, and compared.
TEST(PartsTraining, ANetworkByReferenceIsLoadedFromItsPlace) {
  const test::TempFolder folder;
  const auto engine = tiny_engine();
  const auto given = random_model(engine, size_config(3), 3);
  given->set_attention(model::AttentionKind::causal, 1, 0);
  const std::string place = saved(given, folder.path("encoder"));
  for (const char* dtype : {"auto", "int8", "q8_0"}) {
    SCOPED_TRACE(dtype);
    const auto model = random_model(engine, size_config(2), 1);
    Options options(model::model_schema());
    options.set_json({{"dtype", dtype}, {"attention", "bidirectional"}});
    model->add_network("encoder", *model::load_model(engine, place, options));
    model->add_network("denoiser", *random_model(engine, size_config(1), 4));
    Trainer whole(model, std::make_shared<WithEncoder>(std::vector<std::string>{"base"}),
                  trainer_options());
    TextSource source;
    losses_of(whole, source, 2);
    const std::string dir =
        save_checkpoint(whole, nullptr, folder.path(dtype), Options(checkpoint_schema()));
    const std::string record = join_path(dir, "trainer.json");
    const Json parts = parse_json(read_text(record), record).at("parts");
    ASSERT_EQ(parts[1].at("stored"), "reference");
    EXPECT_EQ(parts[1].at("address"), std::filesystem::weakly_canonical(place).string());
    ASSERT_EQ(parts[2].at("stored"), "value");

    const auto opened = loaded(dir);
    EXPECT_EQ(opened->parts().names(), model->parts().names());
    EXPECT_EQ(opened->parts().find("encoder")->config.attention,
              model::AttentionKind::bidirectional);
    for (const char* part : {"encoder", "denoiser"})
      EXPECT_TRUE(test::same_bytes(logits_of(*opened, part), logits_of(*model, part))) << part;
    EXPECT_EQ(weights_of(*opened), weights_of(*model));
    Trainer second(opened, std::make_shared<WithEncoder>(std::vector<std::string>{"base"}),
                   trainer_options());
    restore_checkpoint(second, nullptr, dir);
    source.seek(2);
    const std::vector<double> wanted = losses_of(whole, source, 2);
    source.seek(2);
    EXPECT_EQ(losses_of(second, source, 2), wanted);
    const std::string again = save_checkpoint(
        second, nullptr, folder.path(std::string("2") + dtype), Options(checkpoint_schema()));
    const std::string more = join_path(again, "trainer.json");
    EXPECT_EQ(parse_json(read_text(more), more).at("parts")[1], parts[1]);

    const Json about = ckpt::WeightsOnDisk(dir).describe();
    EXPECT_EQ(about.at("parts")[1].at("name"), "encoder");
    EXPECT_EQ(about.at("parts")[2].at("stored"), "value");
    int64_t listed = 0;
    for (const Json& row : about.at("tensors")) {
      EXPECT_FALSE(row.at("name").get<std::string>().starts_with("encoder/"));
      listed += row.at("name").get<std::string>().starts_with("denoiser/") ? 1 : 0;
    }
    EXPECT_EQ(listed, std::ssize(model->params().names("denoiser")));
  }
  const std::string dir = folder.path("auto");
  const std::string before = model::digest_of(place);
  std::filesystem::remove_all(place);
  test::expect_error(Code::failed_precondition, "for part encoder, which cannot be read",
                     [&] { loaded(dir); });
  saved(random_model(engine, size_config(3), 9), place);
  const Error error = test::error_of([&] { loaded(dir); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  for (const std::string& word : {std::string("part encoder"), before, model::digest_of(place)})
    EXPECT_NE(error.text().find(word), std::string::npos) << error.text();
}

// Returns the lines that `work` logs.
std::string logged(const std::function<void()>& work) {
  std::string lines;
  log_hook(LogLevel::warn, [&](LogLevel, const std::string& line) { lines += line + "\n"; });
  work();
  log_hook(LogLevel::warn, {});
  return lines;
}

// A folder of Hugging Face holds the base, and the log names the networks that it lacks.
TEST(PartsTraining, ASaveNamesTheNetworksThatItLeavesOut) {
  const test::TempFolder folder;
  const auto model = with_encoder();
  model->add_network("teacher", *random_model(model->engine_ref(), size_config(1), 4));
  const std::string path = folder.path("model"), words = "without the networks of the model: ";
  EXPECT_NE(logged([&] {
              saved(model, path);
            }).find(path + " holds the base alone, " + words + "encoder."),
            std::string::npos);
  const auto trainer = encoder_trainer(model);
  TextSource source;
  losses_of(*trainer, source, 1);
  const std::string dir =
      save_checkpoint(*trainer, nullptr, folder.path("run"), Options(checkpoint_schema()));
  const std::string file = folder.path("small.gguf");
  EXPECT_NE(logged([&] {
              model::quantize_model(dir, file, Options(model::quantize_schema()));
            }).find(file + " holds the base alone, " + words + "encoder."),
            std::string::npos);
  model->remove_network("encoder");
  EXPECT_EQ(logged([&] { saved(model, folder.path("alone")); }), "");
  EXPECT_EQ(loaded(path)->parts().names(), (std::vector<std::string>{"base"}));
}

} // namespace
} // namespace dllm::train
