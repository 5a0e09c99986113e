// Option layer_decay: the rate of every parameter, as described and as it moves the weights.

#include "base/error.h"
#include "model/adapters/adapter.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"
#include "train/step/layer_rates.h"
#include "train/step/program_spec.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::train {
namespace {

using test::TempFolder;

constexpr double kDecay = 0.7;

std::shared_ptr<model::Model> model_of(int64_t layers, bool tied,
                                       const std::shared_ptr<graph::Engine>& engine) {
  Json config = tiny_config(tied);
  config["num_hidden_layers"] = layers;
  return model::new_model(engine, config, Options(model::model_schema()));
}

std::unique_ptr<Trainer> trainer_of(const Json& values, const std::string& adapter = "",
                                    const std::string& mesh = "", bool tied = false) {
  const auto model = model_of(3, tied, mesh.empty() ? tiny_engine() : mesh_engine(mesh));
  if (!adapter.empty()) {
    Options options(model::adapter_schema());
    options.set_json(Json{{"kind", adapter}, {"modules_to_save", {"embed_tokens", "lm_head"}}});
    model::add_adapter(*model, model::adapter_options("mine", options));
  }
  return std::make_unique<Trainer>(model, noise::make_objective("mdlm"), trainer_options(values));
}

// The factor of a tensor in a model of three layers, by its name alone.
double factor_of(const std::string& name) {
  if (name.find("embed_tokens") != std::string::npos) return std::pow(kDecay, 4);
  const size_t at = name.find("layers.");
  if (at == std::string::npos) return 1;
  return std::pow(kDecay, 3 - std::stoi(name.substr(at + 7)));
}

std::map<std::string, double> described_factors(const Trainer& trainer) {
  std::map<std::string, double> made;
  const Json rates = trainer.describe()["optimizer"].value("rates", Json::array());
  for (const Json& row : rates) {
    for (const Json& name : row["tensors"])
      made[name.get<std::string>()] = row["lr_factor"].get<double>();
  }
  return made;
}

const std::vector<std::string> kAdapters = {"", "lora", "dora", "ia3"};

TEST(LayerRates, EveryParameterHasTheRateOfItsDepth) {
  for (const std::string& adapter : kAdapters) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(adapter + (tied ? " tied" : ""));
      const auto trainer = trainer_of({{"layer_decay", kDecay}}, adapter, "", tied);
      const std::map<std::string, double> factors = described_factors(*trainer);
      size_t trained = 0;
      for (const size_t index : trainer->spec().trained) {
        const model::ParamSpec& own = trainer->trained_model().params().physical()[index].spec;
        EXPECT_LE(own.layers, 1) << own.name;
        trained += own.pieces.size();
      }
      EXPECT_EQ(factors.size(), trained);
      for (const auto& [name, factor] : factors) EXPECT_NEAR(factor, factor_of(name), 1e-6) << name;
    }
  }
}

// LoRA+: the rate of B alone is another one, next to the decay of layers and to a group.
TEST(LayerRates, LoraPlusRaisesTheRateOfB) {
  for (const char* kind : {"lora", "dora"}) {
    SCOPED_TRACE(kind);
    const auto moved = [&](double plus) {
      const auto trainer = trainer_of({{"lora_plus", plus},
                                       {"layer_decay", kDecay},
                                       {"optimizer", "sgd"},
                                       {"weight_decay", 0.0},
                                       {"clip", 0.0},
                                       {"lr", 0.5},
                                       {"warmup", 0},
                                       {"groups", {"*layers.1.mlp.down_proj.lora_B* lr=0.25"}}},
                                      kind);
      const auto before = weights_of(*trainer);
      TextSource source;
      trainer->step(*source.next());
      std::map<std::string, double> made;
      for (const auto& [name, values] : weights_of(*trainer)) {
        for (size_t i = 0; i < values.size(); ++i)
          made[name] += std::pow(values[i] - before.at(name)[i], 2);
      }
      return made;
    };
    const std::map<std::string, double> one = moved(1), raised = moved(4);
    int64_t raised_count = 0;
    for (const auto& [name, square] : one) {
      if (square == 0) continue; // frozen, or A, whose gradient has the factor B = 0
      const bool is_up = name.find("lora_B") != std::string::npos,
                 is_of_group = name.find("layers.1.mlp.down_proj.lora_B") != std::string::npos;
      const double wanted = is_up && !is_of_group ? 4 : 1;
      EXPECT_NEAR(std::sqrt(raised.at(name) / square), wanted, 1e-2) << name;
      raised_count += wanted == 4 ? 1 : 0;
    }
    EXPECT_EQ(raised_count, 3 * 7 - 1);
  }
  for (const char* kind : {"", "ia3"}) {
    test::expect_error(Code::invalid_argument, "no matrix B of an adapter is trained", [&] {
      trainer_of({{"lora_plus", 16.0}}, kind);
    });
  }
}

// A step of plain gradient descent is the rate times the gradient.
TEST(LayerRates, AStepMovesEachParameterByItsRate) {
  for (const std::string& adapter : kAdapters) {
    const auto moved = [&](double decay) {
      const auto trainer = trainer_of({{"layer_decay", decay},
                                       {"optimizer", "sgd"},
                                       {"weight_decay", 0.0},
                                       {"clip", 0.0},
                                       {"lr", 1.0},
                                       {"warmup", 0}},
                                      adapter);
      const auto before = weights_of(*trainer);
      TextSource source;
      trainer->step(*source.next());
      std::map<std::string, double> made; // squares of the change
      for (const auto& [name, values] : weights_of(*trainer)) {
        for (size_t i = 0; i < values.size(); ++i)
          made[name] += std::pow(values[i] - before.at(name)[i], 2);
      }
      return made;
    };
    const std::map<std::string, double> whole = moved(1), part = moved(kDecay);
    size_t compared = 0;
    for (const auto& [name, square] : whole) {
      if (square == 0) continue; // frozen, or the other factor of a product is 0
      ++compared;
      // Changes are differences of rounded weights.
      EXPECT_NEAR(std::sqrt(part.at(name) / square), factor_of(name), 2e-3)
          << adapter << " " << name;
    }
    EXPECT_GE(compared, 9u) << adapter;
  }
}

TEST(LayerRates, AGroupKeepsItsOwnRate) {
  const auto trainer = trainer_of(
      {{"layer_decay", kDecay},
       {"lr", 0.5},
       {"groups", {"*embed_tokens* lr=0.25", "model.layers.1.*norm* weight_decay=0.5"}}});
  const std::map<std::string, double> factors = described_factors(*trainer);
  for (const auto& [name, factor] : factors) {
    const bool own = name.find("embed_tokens") != std::string::npos;
    EXPECT_NEAR(factor, own ? 0.5 : factor_of(name), 1e-6) << name;
  }
  const Json rates = trainer->describe()["optimizer"]["rates"];
  EXPECT_EQ(
      std::ranges::count_if(rates, [](const Json& row) { return row.contains("weight_decay"); }),
      1);
}

TEST(LayerRates, WithoutDecayThereIsOneRateAndNoCut) {
  const auto plain = trainer_of(Json::object()), one = trainer_of({{"layer_decay", 1.0}});
  EXPECT_FALSE(one->describe()["optimizer"].contains("rates"));
  EXPECT_EQ(one->spec().trained.size(), plain->spec().trained.size());
  for (const double wrong : {0.0, 1.1, -0.5})
    EXPECT_THROW(trainer_options({{"layer_decay", wrong}}), Error) << wrong;
}

// Golden numbers: decay 0.85 and 65 layers.
TEST(LayerRates, TheFormOfCastlehill) {
  const auto model = model_of(65, false, tiny_engine());
  const Options options = trainer_options({{"layer_decay", 0.85}, {"compat", "open-dllm"}});
  const LayerRates rates(options, model->params());
  model->params().cut_at(rates.borders({"base"}));
  size_t seen = 0;
  for (const model::ParamStore::Physical& entry : model->params().physical()) {
    const std::map<int64_t, double> golden = {{0, 0.85}, {32, 0.9219544}, {64, 1.0}};
    const auto found = golden.find(entry.spec.first_layer);
    if (entry.spec.layers == 0) {
      EXPECT_EQ(rates.factor(entry), 1) << entry.name;
    } else if (found != golden.end()) {
      EXPECT_NEAR(rates.factor(entry), found->second, 1e-6) << entry.name;
      ++seen;
    }
  }
  EXPECT_GE(seen, 3u * 8);
}

TEST(LayerRates, ARunGoesOnFromItsCheckpointToTheBit) {
  TempFolder root;
  const Json values = {{"layer_decay", kDecay}};
  for (const std::string& adapter : {std::string(), std::string("lora")}) {
    const auto whole = trainer_of(values, adapter), first = trainer_of(values, adapter),
               second = trainer_of(values, adapter);
    TextSource source, first_source, second_source;
    whole->run(source, 5);
    first->run(first_source, 3);
    Options options(checkpoint_schema());
    options.set_i64("overwrite", 1);
    const std::string folder = save_checkpoint(*first, &first_source, root.path(), options);
    restore_checkpoint(*second, &second_source, folder);
    second->run(second_source, 2);
    EXPECT_EQ(weights_of(*second), weights_of(*whole)) << adapter;
    EXPECT_EQ(described_factors(*second), described_factors(*whole));
  }
}

TEST(LayerRates, OffloadedAndRecomputedStepsHaveTheSameBits) {
  const auto trained = [](Json more) {
    more["layer_decay"] = kDecay;
    const auto trainer = trainer_of(more);
    TextSource source;
    trainer->run(source, 3);
    return weights_of(*trainer);
  };
  const auto plain = trained(Json::object());
  EXPECT_EQ(trained({{"offload", "ram"}, {"offload_mib", 1}}), plain);
  EXPECT_EQ(trained({{"remat", true}}), plain);
}

// The rates are those of one rank; sums of a mesh have another order.
TEST(LayerRates, AMeshHasTheSameRates) {
  const Json values = {{"layer_decay", kDecay}};
  const auto alone = trainer_of(values), ranks = trainer_of(values, "", "data=2");
  EXPECT_EQ(described_factors(*ranks), described_factors(*alone));
  TextSource a, b;
  for (int step = 0; step < 3; ++step)
    EXPECT_NEAR(ranks->step(*b.next()), alone->step(*a.next()), 1e-4);
}

} // namespace
} // namespace dllm::train
