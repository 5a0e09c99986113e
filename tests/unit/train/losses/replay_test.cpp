// Option replay: an earlier batch is aligned with the teacher again, with its gradient.

#include "base/error.h"
#include "noise/loss/evaluate.h"
#include "noise/terms/replayed_terms.h"
#include "train/checkpoint/checkpoint.h"
#include "train/replay/replay_buffer.h"
#include "unit/test_files.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::train {
namespace {

const Json kAligned = {
    {"teacher", "model"}, {"align", 2.0}, {"align_kind", "angular"}, {"align_share", 0.5}};

noise::ObjectiveRef objective_of(const Json& settings) {
  Options options(noise::objective_schema("mdlm"));
  options.set_json(settings);
  return noise::make_objective("mdlm", nullptr, options);
}

std::shared_ptr<model::Model> taught(const std::shared_ptr<graph::Engine>& engine) {
  Options options(model::model_schema());
  const auto model = model::new_model(engine, tiny_config(false), options);
  options.set_i64("seed", 9);
  model->add_network("teacher", *model::new_model(engine, tiny_config(false), options));
  return model;
}

// Every step replays one of the last batches.
Json always(Json more = Json::object()) {
  Json made = {{"replay", 4}, {"replay_warmup", 1}, {"replay_prob", 1.0}, {"replay_weight", 0.7}};
  made.update(more);
  return made;
}

std::unique_ptr<Trainer> trainer_of(const Json& values, const std::string& mesh = "",
                                    const Json& objective = kAligned) {
  return std::make_unique<Trainer>(taught(mesh.empty() ? tiny_engine() : mesh_engine(mesh)),
                                   objective_of(objective), trainer_options(values));
}

double take_step(Trainer& trainer, TextSource& source, int64_t accumulate) {
  if (accumulate == 1) return trainer.step(*source.next());
  for (int64_t part = 0; part < accumulate; ++part) trainer.accumulate(*source.next());
  return trainer.apply();
}

// The gradient of the alignment of the first batch, at the weights that a trainer has now.
noise::LossGradients gradients_of_first(const Trainer& trainer) {
  TextSource source;
  const noise::ObjectiveRef alone = noise::replayed_terms_of(*trainer.objective());
  const auto model = trainer.model("live");
  const Batch prepared =
      alone->prepare(*source.next(), 7, 0, noise::prepare_context(*alone, model->config()));
  return noise::loss_gradients(*model, *alone, prepared);
}

// The second step replays the first batch: next to a step without replay the weights move by
// lr * replay_weight * gradient. The original adds the loss and no gradient.
TEST(Replay, AReplayedAlignmentHasItsGradient) {
  const Json plain = {
      {"optimizer", "sgd"}, {"lr", 1.0}, {"warmup", 0}, {"clip", 0.0}, {"weight_decay", 0.0}};
  const auto with = trainer_of(always(plain)), without = trainer_of(plain);
  TextSource a, b;
  EXPECT_EQ(with->step(*a.next()), without->step(*b.next())); // nothing is kept yet
  EXPECT_EQ(weights_of(*with), weights_of(*without));
  const noise::LossGradients wanted = gradients_of_first(*with);
  const double loss = with->step(*a.next()), own = without->step(*b.next());
  EXPECT_NEAR(with->metric("replay"), wanted.loss.mean(), 1e-5);
  EXPECT_NEAR(loss, own + 0.7 * wanted.loss.mean(), 1e-4);
  const auto moved = weights_of(*with), stayed = weights_of(*without);
  double largest = 0;
  for (const auto& [name, gradient] : wanted.gradients) {
    const auto numbers = gradient.as<float>();
    const auto found = moved.find(name);
    if (found == moved.end()) continue; // of the teacher
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double difference = found->second[i] - stayed.at(name)[i];
      EXPECT_NEAR(difference, -0.7 * numbers[i], 2e-6) << name << ' ' << i;
      largest = std::max(largest, std::abs(difference));
    }
  }
  EXPECT_GT(largest, 1e-3);
}

TEST(Replay, WithoutADrawNoBitChanges) {
  const auto trained = [](const Json& values) {
    const auto trainer = trainer_of(values);
    TextSource source;
    std::vector<double> losses;
    for (int step = 0; step < 4; ++step) losses.push_back(trainer->step(*source.next()));
    return std::pair(losses, weights_of(*trainer));
  };
  const auto plain = trained(Json::object());
  EXPECT_EQ(trained(always({{"replay_prob", 0.0}})), plain);
  EXPECT_EQ(trained(always({{"replay_warmup", 4}})), plain);
  EXPECT_NE(trained(always({{"replay_warmup", 3}})), plain);
}

TEST(Replay, DrawsAreOfTheirRateAndEven) {
  Options options = trainer_options({{"replay", 5}, {"replay_warmup", 3}, {"replay_prob", 0.3}});
  ReplayBuffer buffer(options);
  TextSource source(1, 4);
  std::map<const ReplayedBatch*, int> seen;
  constexpr int kDraws = 20000;
  for (int kept = 0; kept < 9; ++kept) {
    EXPECT_EQ(buffer.kept().size(), static_cast<size_t>(std::min(kept, 5)));
    seen.clear();
    int drawn = 0;
    for (int number = 0; number < kDraws; ++number) {
      const ReplayedBatch* found = buffer.drawn(number);
      drawn += found != nullptr ? 1 : 0;
      if (found != nullptr) ++seen[found];
      EXPECT_EQ(found, buffer.drawn(number)); // of the number alone
    }
    // 5 standard deviations of a share of 0.3
    EXPECT_NEAR(drawn, kept < 3 ? 0 : 0.3 * kDraws, 5 * std::sqrt(0.21 * kDraws)) << kept;
    for (const auto& [batch, count] : seen) {
      const double each = 0.3 * kDraws / static_cast<double>(buffer.kept().size());
      EXPECT_NEAR(count, each, 5 * std::sqrt(each)) << kept;
    }
    buffer.push(*source.next(), {7, kept, false}, {});
  }
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(buffer.kept().front().key.step, 4); // the oldest went
}

TEST(Replay, MicroBatchesMeshesAndOffloadedStateAgree) {
  const auto losses = [](Json values, const std::string& mesh, int64_t accumulate) {
    values["accumulate"] = accumulate;
    const auto trainer = trainer_of(always(values), mesh);
    TextSource source;
    std::vector<double> made;
    for (int step = 0; step < 4; ++step) {
      made.push_back(take_step(*trainer, source, accumulate));
      made.push_back(trainer->metric("grad_norm"));
    }
    made.push_back(trainer->metric("replay"));
    return made;
  };
  for (const int64_t accumulate : {1, 2}) {
    const std::vector<double> alone = losses(Json::object(), "", accumulate);
    EXPECT_EQ(losses({{"offload", "ram"}, {"offload_mib", 1}}, "", accumulate), alone);
    EXPECT_EQ(losses({{"remat", true}}, "", accumulate), alone);
    for (const char* mesh : {"data=2", "fsdp=2", "tensor=2"}) {
      const std::vector<double> got = losses(Json::object(), mesh, accumulate);
      ASSERT_EQ(got.size(), alone.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], alone[i], 2e-4 * std::abs(alone[i])) << mesh << ' ' << i;
    }
  }
}

TEST(Replay, ARunGoesOnFromItsCheckpointToTheBit) {
  for (const int64_t accumulate : {1, 2}) {
    test::TempFolder root;
    const Json values = always({{"accumulate", accumulate}, {"replay_prob", 0.6}});
    const auto whole = trainer_of(values), first = trainer_of(values), second = trainer_of(values);
    TextSource source, first_source, second_source;
    std::vector<double> wanted, got;
    for (int step = 0; step < 7; ++step) wanted.push_back(take_step(*whole, source, accumulate));
    for (int step = 0; step < 3; ++step) take_step(*first, first_source, accumulate);
    if (accumulate == 2) first->accumulate(*first_source.next()); // in the middle of an update
    const std::string folder =
        save_checkpoint(*first, &first_source, root.path(), Options(checkpoint_schema()));
    restore_checkpoint(*second, &second_source, folder);
    EXPECT_EQ(second->replay().kept().size(), first->replay().kept().size());
    if (accumulate == 2) {
      second->accumulate(*second_source.next());
      got.push_back(second->apply());
    }
    while (got.size() < 4) got.push_back(take_step(*second, second_source, accumulate));
    EXPECT_EQ(got, std::vector<double>(wanted.begin() + 3, wanted.end()));
    EXPECT_EQ(weights_of(*second), weights_of(*whole)) << accumulate;
  }
}

TEST(Replay, WhatCannotReplayIsRefused) {
  test::expect_error(Code::invalid_argument, "has no alignment",
                     [] { trainer_of(always(), "", Json::object()); });
  test::expect_error(Code::invalid_argument, "replay_warmup waits for 50", [] {
    trainer_of({{"replay", 8}});
  });
}

} // namespace
} // namespace dllm::train
