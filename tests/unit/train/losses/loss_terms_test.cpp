// Terms of a loss in a training: on meshes, over micro-batches, and with a teacher.

#include "base/error.h"
#include "model/adapters/adapter.h"
#include "noise/loss/evaluate.h"
#include "noise/objective.h"
#include "train/evaluator.h"
#include "unit/test_files.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

namespace dllm::train {
namespace {

const Json kAll = {{"align", 2.0},           {"align_kind", "angular"}, {"align_share", 0.5},
                   {"align_layer_count", 1}, {"distill", 0.5},          {"entropy", 0.3}};

noise::ObjectiveRef objective_of(const Json& settings) {
  Options options(noise::objective_schema("mdlm"));
  options.set_json(settings);
  return noise::make_objective("mdlm", nullptr, options);
}

Json sizes() {
  Json config = tiny_config(false);
  config.update({{"vocab_size", 32}, {"head_dim", 6}, {"intermediate_size", 48}});
  return config;
}

std::shared_ptr<model::Model> taught(const std::shared_ptr<graph::Engine>& engine) {
  Options options(model::model_schema());
  const auto model = model::new_model(engine, sizes(), options);
  options.set_i64("seed", 9);
  model->add_network("teacher", *model::new_model(engine, sizes(), options));
  return model;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted,
                 const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 2e-4 * wanted[i]) << what << ' ' << i;
}

TEST(LossTerms, OnAMeshTheLossIsThatOfOneRank) {
  const auto losses = [](const std::shared_ptr<graph::Engine>& engine, Json settings) {
    settings["teacher"] = "model";
    Trainer trainer(taught(engine), objective_of(settings), trainer_options({{"lr", 0.01}}));
    TextSource source(4);
    std::vector<double> made = losses_of(trainer, source, 4);
    for (const char* name : {"align", "distill", "entropy"}) {
      if (settings.contains(name)) made.push_back(trainer.metric(name));
    }
    return made;
  };
  for (const Json& settings :
       {kAll, Json{{"align", 1.0}, {"align_kind", "infonce"}},
        Json{{"align", 1.0}, {"align_kind", "blocks"}, {"align_blocks", 2}},
        Json{{"distill", 1.0}, {"distill_kind", "js"}}, Json{{"entropy", 1.0}},
        Json{{"distill", 1.0},
             {"distill_steps", 2},
             {"distill_of", 3},
             {"teacher_attention", "bidirectional"},
             {"own_weight", 0.5}}}) {
    Json own = settings;
    if (!own.contains("align") && !own.contains("distill")) own["distill"] = 0.1;
    const std::vector<double> alone = losses(tiny_engine(), own);
    for (const char* mesh : {"data=2", "fsdp=2", "tensor=2", "sequence=2", "fsdp=2,tensor=2"})
      expect_near(losses(mesh_engine(mesh), own), alone, own.dump() + " " + mesh);
  }
}

TEST(LossTerms, MicroBatchesAreOneUpdate) {
  const auto losses = [](int64_t parts) {
    Json settings = kAll;
    settings["teacher"] = "model";
    Trainer trainer(taught(tiny_engine()), objective_of(settings),
                    trainer_options({{"accumulate", parts}}));
    TextSource source(4 / parts);
    std::vector<double> made;
    for (int i = 0; i < 3; ++i) {
      for (int64_t part = 0; part < parts; ++part) trainer.accumulate(*source.next());
      made.push_back(trainer.apply());
    }
    return made;
  };
  expect_near(losses(2), losses(1), "accumulate");
}

// The adapters come near the teacher that they are compared with, and the base stays.
TEST(LossTerms, AdaptersLearnFromTheirBase) {
  const auto model = model::new_model(tiny_engine(), sizes(), Options(model::model_schema()));
  model::add_adapter(*model, {{"*_proj.weight"}, {4, 8}, 1});
  const auto before = weights_of(*model);
  const auto run = [&](double weight) {
    const auto own = model::clone_model(*model);
    Json settings = {{"align", 1e-6}, {"align_positions", "all"}};
    settings["align"] = weight;
    Trainer trainer(own, objective_of(settings), trainer_options({{"lr", 0.02}}));
    TextSource source;
    for (int i = 0; i < 30; ++i) trainer.step(*source.next());
    for (const auto& [name, values] : weights_of(*own)) {
      if (!name.starts_with("adapter:")) EXPECT_EQ(values, before.at(name)) << name;
    }
    return trainer.metric("align");
  };
  const double free = run(1e-6), near = run(100);
  EXPECT_GT(free, 0.01);
  EXPECT_LT(near, 0.8 * free);
}

// A student comes near two steps of its teacher, also in rows and draws that it was not trained
// on. own_weight 0 leaves the data out, so the teacher alone is learned from.
TEST(LossTerms, AStudentLearnsTwoStepsOfItsTeacher) {
  const auto on = tiny_engine();
  const auto teacher = model::new_model(on, sizes(), Options(model::model_schema()));
  const Json means = {{"loss_weight", "ones"}, {"loss_norm", "masked"}};
  {
    Trainer trainer(teacher, objective_of(means), trainer_options({{"lr", 0.02}}));
    TextSource source(16);
    for (int i = 0; i < 150; ++i) trainer.step(*source.next());
  }
  Options options(model::model_schema());
  options.set_i64("seed", 9);
  const auto student = model::new_model(on, sizes(), options);
  student->add_network("teacher", *teacher);
  Json settings = {{"distill", 1.0},      {"distill_steps", 2},
                   {"distill_of", 4},     {"teacher", "model"},
                   {"own_weight", 0.0},   {"teacher_attention", "bidirectional"},
                   {"distill_rest", true}};
  settings.update(means);
  const noise::ObjectiveRef objective = objective_of(settings);
  const auto apart = [&] {
    noise::LossRunner runner(student, objective);
    TextSource source(32);
    return runner.run(*source.next(), 1000, 0, nullptr).mean();
  };
  const double before = apart();
  Trainer trainer(student, objective, trainer_options({{"lr", 0.01}}));
  TextSource source(8);
  for (int i = 0; i < 100; ++i) trainer.step(*source.next());
  const double after = apart();
  EXPECT_GT(before, 1);
  EXPECT_LT(after, 0.5 * before) << before;
}

TEST(LossTerms, AModelWithoutAdaptersHasNoBaseToLearnFrom) {
  const auto model = tiny_model();
  const Json before = model->describe();
  test::expect_error(Code::failed_precondition, "the model has none", [&] {
    Trainer(model, objective_of({{"align", 1.0}}), trainer_options());
  });
  EXPECT_EQ(model->describe(), before);
}

// A held-out loss is that of the objective alone, so that runs with and without a teacher compare.
TEST(LossTerms, AHeldOutLossLeavesThemOut) {
  Json settings = kAll;
  settings["teacher"] = "model";
  const auto model = taught(tiny_engine());
  TextSource one, two;
  Evaluator with(model, objective_of(settings)), without(model, objective_of(Json::object()));
  EXPECT_EQ(with.run(one, 2, 8, {}, nullptr).loss, without.run(two, 2, 8, {}, nullptr).loss);
}

} // namespace
} // namespace dllm::train
