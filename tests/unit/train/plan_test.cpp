// The plan of a training step is about the very program that a trainer runs.

#include "train/plan.h"

#include "base/error.h"
#include "model/adapters/adapter.h"
#include "tiny.h"
#include "unit/watching_engine.h"

#include <gtest/gtest.h>

namespace dllm::train {
namespace {

Options plan_options(const Json& values) {
  Options options(model::plan_schema());
  options.set_json(Json{{"what", "train"}, {"batch", 4}, {"length", 16}});
  options.set_json(values);
  return options;
}

TEST(TrainPlan, IsTheProgramOfTheTrainer) {
  for (const char* objective : {"mdlm", "ar", "token_ce"}) {
    for (const bool remat : {false, true}) {
      const auto engine = std::make_shared<test::WatchingEngine>(tiny_engine());
      const auto model = tiny_model(engine);
      const int64_t uploads = engine->uploads;
      const Options options = plan_options({{"objective", objective}, {"remat", remat}});
      const model::Job job = training_job(engine, model->config(), options);
      const Json plan = parse_json(model::plan_text(*engine, job, options), "plan");
      ASSERT_EQ(engine->compiled.size(), 1u);
      EXPECT_EQ(engine->uploads, uploads);
      const int64_t count = model->params().parameter_count();
      EXPECT_EQ(plan["weights"], count * 4);
      EXPECT_EQ(plan["moments"], count * 8);
      EXPECT_GE(plan["inputs"].get<int64_t>(), count * 12);
      EXPECT_GE(plan["peak"].get<int64_t>(), count * 12 + plan["arena"].get<int64_t>());

      Trainer trainer(model, noise::make_objective(objective), trainer_options({{"remat", remat}}));
      TextSource source;
      Batch batch = *source.next();
      if (std::string(objective) == "token_ce") {
        batch.set("targets", batch.at("ids"));
        batch.set("weights", Tensor(DType::f32, {4, 16}));
      }
      trainer.step(batch);
      EXPECT_EQ(engine->compiled.at(1), engine->compiled.at(0)) << objective << remat;
    }
  }
}

Json wide_config() {
  Json config = tiny_config(false);
  config.update({{"hidden_size", 64}, {"head_dim", 16}, {"intermediate_size", 128}});
  return config;
}

// A base in codes stays in codes, and nothing is uploaded for the plan.
TEST(TrainPlan, IsTheProgramOfAnAdaptersTrainer) {
  for (const auto& [dtype, kind] : {std::pair{"f32", "lora"},
                                    {"nf4", "lora"},
                                    {"int8", "lora"},
                                    {"q8_0", "dora"},
                                    {"nf4", "ia3"}}) {
    SCOPED_TRACE(std::string(dtype) + " " + kind);
    const auto engine = std::make_shared<test::WatchingEngine>(tiny_engine());
    Json adapter = {{"kind", kind}};
    if (kind != std::string("ia3")) adapter.update({{"rank", 4}, {"targets", {"q", "v", "down"}}});
    const Options options = plan_options({{"dtype", dtype}, {"adapter", adapter.dump()}});
    const model::ModelConfig config = model::config_from_json(wide_config(), "config");
    const model::Job job = training_job(engine, config, options);
    const Json plan = parse_json(model::plan_text(*engine, job, options), "plan");
    EXPECT_EQ(engine->uploads, 0);

    Options storage(model::model_schema());
    storage.set_text("dtype", dtype);
    const auto model = model::new_model(engine, wide_config(), storage);
    const int64_t base = model->params().bytes();
    Options settings(model::adapter_schema());
    settings.set_json(adapter);
    model::add_adapter(*model, model::adapter_options("default", settings));
    const Json row = model::list_adapters(*model).at(0);
    EXPECT_EQ(plan["trained"], row.at("params"));
    EXPECT_EQ(plan["parameters"], model->params().parameter_count());
    EXPECT_EQ(plan["adapter"], row.at("bytes"));
    EXPECT_EQ(plan["moments"].get<int64_t>(), 2 * row.at("bytes").get<int64_t>());
    EXPECT_EQ(plan["weights"].get<int64_t>() - plan["adapter"].get<int64_t>(),
              model::parameter_bytes(*model) - row.at("bytes").get<int64_t>());
    if (dtype == std::string("nf4")) EXPECT_LT(base, model->params().parameter_count());

    Trainer trainer(model, noise::make_objective("mdlm"), trainer_options(Json::object()));
    TextSource source;
    trainer.step(*source.next());
    ASSERT_EQ(engine->compiled.size(), 2u);
    EXPECT_EQ(engine->compiled.at(1), engine->compiled.at(0)); // so the peaks are equal
    EXPECT_GE(plan["peak"].get<int64_t>(), plan["weights"].get<int64_t>() +
                                               plan["moments"].get<int64_t>() +
                                               plan["arena"].get<int64_t>());
  }
}

TEST(TrainPlan, RefusesWrongAdapters) {
  const auto engine = tiny_engine();
  const model::ModelConfig config = model::config_from_json(wide_config(), "config");
  const auto error_of_plan = [&](const Json& values) {
    try {
      training_job(engine, config, plan_options(values));
    } catch (const Error& error) {
      return error.text();
    }
    return std::string("none");
  };
  EXPECT_NE(error_of_plan({{"adapter", "16"}}), "none");
  EXPECT_NE(error_of_plan({{"adapter", R"({"rnak": 16})"}}).find("rnak"), std::string::npos);
  EXPECT_NE(error_of_plan({{"adapter", R"({"targets": ["nothing"]})"}}).find("nothing"),
            std::string::npos);
  EXPECT_NE(error_of_plan({{"what", "forward"}, {"adapter", R"({"rank": 4})"}}).find("adapter"),
            std::string::npos);
}

// Nothing is compiled for format sizes.
TEST(TrainPlan, SizesNeedNoProgram) {
  const auto engine = std::make_shared<test::WatchingEngine>(tiny_engine());
  const model::ModelConfig config = model::config_from_json(wide_config(), "config");
  const Options options = plan_options({{"format", "sizes"}, {"adapter", R"({"rank": 4})"}});
  const Json plan =
      parse_json(model::plan_text(*engine, training_job(engine, config, options), options), "plan");
  EXPECT_TRUE(engine->compiled.empty());
  EXPECT_GT(plan["trained"].get<int64_t>(), 0);
  EXPECT_FALSE(plan.contains("arena"));
}

TEST(TrainPlan, AverageAndRemat) {
  const auto engine = tiny_engine();
  const auto model = tiny_model(engine);
  const auto plan = [&](const Json& values) {
    const Options options = plan_options(values);
    return parse_json(
        model::plan_text(*engine, training_job(engine, model->config(), options), options), "plan");
  };
  const int64_t count = model->params().parameter_count();
  EXPECT_EQ(plan({{"ema", true}})["moments"], count * 12);
  EXPECT_EQ(plan({{"optimizer", "sgd"}})["moments"], 0); // without momentum
  EXPECT_EQ(plan({{"optimizer", "sgd"}, {"ema", true}})["moments"], count * 4);
  EXPECT_THROW(plan({{"optimizer", "sdg"}}), Error);
  const Json wide = {{"batch", 16}, {"length", 64}};
  Json narrow = wide;
  narrow["remat"] = true;
  EXPECT_LT(plan(narrow)["arena"].get<int64_t>(), plan(wide)["arena"].get<int64_t>());
  EXPECT_GT(plan(narrow)["flops"].get<double>(), plan(wide)["flops"].get<double>());
}

// What layers keep grows with their number, what one of them needs meanwhile does not.
TEST(TrainPlan, RoundedActivationsTakeLess) {
  const auto engine = tiny_engine();
  Json config = tiny_config();
  config["num_hidden_layers"] = 12;
  const auto model = model::new_model(engine, config, Options(model::model_schema()));
  const auto arena = [&](const char* activations) {
    const Options options =
        plan_options({{"batch", 16}, {"length", 64}, {"activations", activations}});
    const Json plan = parse_json(
        model::plan_text(*engine, training_job(engine, model->config(), options), options), "plan");
    return plan["arena"].get<int64_t>();
  };
  EXPECT_LT(static_cast<double>(arena("bf16")), 0.9 * static_cast<double>(arena("f32")));
}

TEST(TrainPlan, RecomputesUntilTheStepFits) {
  const auto engine = tiny_engine();
  const auto model = tiny_model(engine);
  const auto plan = [&](int64_t memory) {
    const Options options = plan_options({{"batch", 16}, {"length", 64}, {"memory", memory}});
    return parse_json(
        model::plan_text(*engine, training_job(engine, model->config(), options), options), "plan");
  };
  const Json all = plan(0);
  EXPECT_EQ(all["recomputed"], 0);
  const int64_t most = all["peak"].get<int64_t>();
  EXPECT_EQ(plan(most), all); // nothing has to be given up
  const Json less = plan(most * 9 / 10);
  EXPECT_GT(less["recomputed"].get<int64_t>(), 0);
  EXPECT_LE(less["peak"].get<int64_t>(), most * 9 / 10);
  EXPECT_GT(less["flops"].get<double>(), all["flops"].get<double>());
  try {
    plan(1000);
    FAIL() << "a step in 1000 bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    EXPECT_NE(std::string(error.text()).find("at least"), std::string::npos) << error.text();
  }
}

} // namespace
} // namespace dllm::train
