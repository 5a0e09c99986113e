#include "train/trainer.h"

#include "base/error.h"
#include "tiny.h"
#include "unit/cancel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

namespace dllm::train {
namespace {

TEST(Trainer, LearnsATinyText) {
  auto trainer = tiny_trainer({{"lr", 5e-3}});
  TextSource source, held;
  held.seek(1000);
  const double before = trainer->eval(held, 8);
  trainer->run(source, 150);
  held.seek(1000);
  const double after = trainer->eval(held, 8);
  EXPECT_GT(before, 2.5);
  EXPECT_LT(after, 0.6 * before) << "from " << before;
  EXPECT_EQ(trainer->metric("step"), 150);
  EXPECT_EQ(trainer->metric("tokens"), 150 * 4 * 16);
  EXPECT_GT(trainer->metric("tokens_per_second"), 0);
  EXPECT_GT(trainer->metric("mfu"), 0);
}

TEST(Trainer, AutoregressiveLearnsToo) {
  auto trainer = tiny_trainer({{"lr", 5e-3}}, 1, "ar");
  TextSource source;
  trainer->run(source, 80);
  EXPECT_LT(trainer->metric("loss"), 0.5);
}

TEST(Trainer, EvaluationRepeatsAndChangesNothing) {
  auto trainer = tiny_trainer();
  TextSource source;
  const auto before = weights_of(*trainer);
  const double first = trainer->eval(source, 3);
  source.seek(0);
  EXPECT_EQ(trainer->eval(source, 3), first);
  EXPECT_EQ(weights_of(*trainer), before);
  TextSource empty(4, 16, 0);
  EXPECT_THROW(trainer->eval(empty, 1), Error);
}

TEST(Trainer, ThreadsChangeNoBit) {
  const auto trained = [](int64_t threads) {
    auto trainer = tiny_trainer(Json::object(), threads);
    TextSource source;
    trainer->run(source, 6);
    return weights_of(*trainer);
  };
  EXPECT_EQ(trained(1), trained(2));
}

TEST(Trainer, ThreadsOfOpenMpChangeNoBit) {
  if (!has_openmp()) GTEST_SKIP() << "this build has no threads of OpenMP";
  const auto trained = [](const char* thread_pool) {
    Trainer trainer(tiny_model(tiny_engine(2, thread_pool)), noise::make_objective("mdlm"),
                    trainer_options());
    TextSource source;
    const double before = trainer.eval(source, 3); // forward passes
    source.seek(0);
    trainer.run(source, 6);
    return std::pair(before, weights_of(trainer));
  };
  EXPECT_EQ(trained("own"), trained("openmp"));
}

TEST(Trainer, RematerializationChangesNoBit) {
  const auto trained = [](bool remat) {
    auto trainer = tiny_trainer({{"remat", remat}});
    TextSource source;
    trainer->run(source, 3);
    return weights_of(*trainer);
  };
  EXPECT_EQ(trained(false), trained(true));
}

// What a bound on memory makes the backward pass compute again has the bits of what was kept.
TEST(Trainer, BoundedMemoryChangesNoBit) {
  const auto trained = [](int64_t memory) {
    auto trainer = tiny_trainer({{"memory", memory}});
    TextSource source(16, 64);
    trainer->run(source, 3);
    return std::pair(weights_of(*trainer), trainer->describe()["recomputed"].get<int64_t>());
  };
  const auto free = trained(0);
  EXPECT_EQ(free.second, 0);
  int64_t least = 0;
  try {
    trained(1000);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    ASSERT_EQ(std::sscanf(error.text().c_str(), "a training step needs at least %ld", &least), 1);
  }
  const auto bounded = trained(least);
  EXPECT_GT(bounded.second, 0);
  EXPECT_EQ(bounded.first, free.first);
}

// The forward pass stays as it is, so the first loss has the same bits; later ones are near.
TEST(Trainer, ActivationsMayBeKeptRounded) {
  const auto trained = [](const char* activations) {
    auto trainer = tiny_trainer({{"activations", activations}, {"lr", 0.01}});
    TextSource source(8);
    const std::vector<double> losses = losses_of(*trainer, source, 30);
    return std::pair(losses, weights_of(*trainer));
  };
  const auto exact = trained("f32"), rounded = trained("bf16");
  EXPECT_EQ(exact.first[0], rounded.first[0]);
  EXPECT_NE(exact.second, rounded.second);
  EXPECT_LT(exact.first.back(), 0.9 * exact.first[0]);
  for (size_t i = 0; i < exact.first.size(); ++i)
    EXPECT_NEAR(exact.first[i], rounded.first[i], 0.01 * exact.first[i]) << i;
  EXPECT_EQ(trained("bf16"), rounded);
  EXPECT_THROW(tiny_trainer({{"activations", "bf16"}, {"remat", true}}), Error);
  EXPECT_THROW(tiny_trainer({{"activations", "f16"}}), Error);
}

// The search for a plan makes up to 25 of them.
TEST(Trainer, ACancelledSearchForAPlanStops) {
  auto trainer = tiny_trainer({{"memory", 1000}}); // none fits
  TextSource source(16, 64);
  const Batch batch = *source.next();
  Task task;
  task.cancel_at_check(4);
  try {
    trainer->step(batch, &task);
    ADD_FAILURE() << "fits 1000 bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::cancelled) << error.text();
  }
  EXPECT_GE(task.checks_left(), -1); // no further plan was begun
}

TEST(Trainer, BoundedMemoryAndRematAreOneTooMany) {
  EXPECT_THROW(tiny_trainer({{"memory", 1000000}, {"remat", true}}), Error);
}

// Two halves accumulated draw the same noise as one batch and give the same update up to rounding.
TEST(Trainer, HalvesAccumulatedEqualOneBatch) {
  TextSource source(8);
  const Batch whole = *source.next();
  auto one = tiny_trainer(), two = tiny_trainer();
  const double loss = one->step(whole);
  for (int64_t half = 0; half < 2; ++half) {
    Batch part;
    part.set("ids", whole.at("ids").rows(4 * half, 4 * half + 4).clone());
    two->accumulate(part);
  }
  EXPECT_EQ(two->accumulated(), 2);
  EXPECT_NEAR(two->apply(), loss, 1e-5 * loss);
  EXPECT_EQ(two->accumulated(), 0);
  EXPECT_NEAR(one->metric("grad_norm"), two->metric("grad_norm"), 1e-4 * one->metric("grad_norm"));
  // Adam's first step moves every weight by lr whatever the gradient's size: allow a few that sit
  // at zero.
  const auto a = weights_of(*one), b = weights_of(*two);
  int64_t far = 0, all = 0;
  for (const auto& [name, values] : a) {
    for (size_t i = 0; i < values.size(); ++i, ++all)
      far += std::abs(values[i] - b.at(name)[i]) > 1e-5 ? 1 : 0;
  }
  EXPECT_LE(far, all / 500);
}

// mdlm, and the times it drew.
class Recorder final : public noise::Objective {
public:
  explicit Recorder(const Options& options)
      : Objective(nullptr, options), inner_(noise::make_objective("mdlm", nullptr, options)) {}
  const std::string& name() const override { return inner_->name(); }
  bool needs_mask_id() const override { return true; }
  bool spreads_over_rows() const override { return inner_->spreads_over_rows(); }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const noise::PrepareContext& context) const override {
    Batch made = inner_->prepare(batch, seed, step, context);
    const auto t = made.at("t").as<float>();
    times.insert(times.end(), t.begin(), t.end());
    return made;
  }
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override {
    return inner_->feed(prepared, config);
  }
  model::AttentionKind attention(const model::ModelConfig& config) const override {
    return inner_->attention(config);
  }
  Json describe() const override { return inner_->describe(); }
  mutable std::vector<float> times;

private:
  noise::ObjectiveRef inner_;
};

struct Spread {
  std::shared_ptr<Recorder> objective;
  std::unique_ptr<Trainer> trainer;

  explicit Spread(int64_t accumulate) {
    Options options(noise::objective_schema("mdlm"));
    options.set_str("time_sampling", "low_discrepancy");
    objective = std::make_shared<Recorder>(options);
    trainer = std::make_unique<Trainer>(tiny_model(), objective,
                                        trainer_options({{"accumulate", accumulate}}));
  }
};

Batch rows_of(const Batch& whole, int64_t begin, int64_t end) {
  Batch part;
  part.set("ids", whole.at("ids").rows(begin, end).clone());
  return part;
}

TEST(Trainer, LowDiscrepancyIsSpreadOverTheWholeUpdate) {
  constexpr int64_t kRows = 16;
  TextSource source(kRows);
  const Batch whole = *source.next();
  Spread one(1);
  const double loss = one.trainer->step(whole);
  for (const int64_t parts : {1, 2, 4, 8}) {
    Spread many(parts);
    const int64_t size = kRows / parts;
    for (int64_t p = 0; p < parts; ++p)
      many.trainer->accumulate(rows_of(whole, p * size, (p + 1) * size));
    EXPECT_NEAR(many.trainer->apply(), loss, 1e-5 * loss) << parts;
    EXPECT_EQ(many.objective->times, one.objective->times) << parts; // bit for bit
  }
  // One time in every sixteenth of the range, so the mean is 0.5 within 1/32.
  double mean = 0;
  for (const float t : one.objective->times) mean += t / kRows;
  EXPECT_NEAR(mean, 0.5, 1.0 / 32 + 1e-3);
}

TEST(Trainer, ARunSpreadsTimesOverItsUpdates) {
  for (const int64_t parts : {1, 2, 4, 8}) {
    Spread many(parts);
    TextSource source(2);
    many.trainer->run(source, 8);
    double mean = 0;
    const auto& times = many.objective->times;
    ASSERT_EQ(times.size(), static_cast<size_t>(8 * 2 * parts));
    for (const float t : times) mean += t / static_cast<double>(times.size());
    // Each of the rows lies in its own part of the range: at most half a part off, less in the
    // mean.
    EXPECT_NEAR(mean, 0.5, 0.5 / static_cast<double>(2 * parts) + 1e-3) << parts;
  }
}

TEST(Trainer, LowDiscrepancyNeedsTheRowsOfTheUpdate) {
  TextSource source(4);
  Spread pair(2);
  pair.trainer->accumulate(*source.next());
  EXPECT_THROW(pair.trainer->apply(), Error); // half an update: only small times
  TextSource small(2);
  EXPECT_THROW(pair.trainer->accumulate(*small.next()), Error);
  pair.trainer->accumulate(*source.next());
  try {
    pair.trainer->accumulate(*source.next());
    FAIL() << "a third of two";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::failed_precondition);
    EXPECT_NE(error.text().find("batch 3 of an update of 2"), std::string::npos) << error.text();
  }
  EXPECT_TRUE(std::isfinite(pair.trainer->apply()));
}

TEST(Trainer, SumsStartFromZeroAgain) {
  TextSource source;
  auto plain = tiny_trainer(), paired = tiny_trainer();
  for (int i = 0; i < 3; ++i) {
    const Batch batch = *source.next();
    const double loss = plain->step(batch);
    paired->accumulate(batch);
    EXPECT_NEAR(paired->apply(), loss, 1e-4 * loss);
  }
}

TEST(Trainer, HalvesAreCalledInOrder) {
  TextSource source;
  auto trainer = tiny_trainer();
  EXPECT_THROW(trainer->apply(), Error);
  trainer->accumulate(*source.next());
  EXPECT_THROW(trainer->step(*source.next()), Error);
  trainer->apply();
  trainer->step(*source.next());
}

TEST(Trainer, NonFiniteStepsAreSkippedToTheBit) {
  TextSource source;
  auto skipping = tiny_trainer({{"nonfinite", "skip"}, {"ema", 0.9}}),
       clean = tiny_trainer({{"nonfinite", "skip"}, {"ema", 0.9}});
  const Batch first = *source.next(), second = *source.next();
  skipping->step(first);
  clean->step(first);
  const auto before = weights_of(*skipping);
  EXPECT_FALSE(std::isfinite(skipping->step(poisoned())));
  EXPECT_EQ(weights_of(*skipping), before);
  EXPECT_EQ(skipping->metric("skipped"), 1);
  // The moments, the average and the count of updates are untouched too: a prepared batch gives
  // equal weights.
  const noise::PrepareContext context =
      noise::prepare_context(*clean->objective(), clean->model("live")->config());
  const Batch prepared = clean->objective()->prepare(second, 1, 1, context);
  skipping->step(prepared);
  clean->step(prepared);
  EXPECT_EQ(weights_of(*skipping), weights_of(*clean));
  EXPECT_EQ(weights_of(*skipping->model("ema")), weights_of(*clean->model("ema")));
}

// Every token is given: there is no target, so neither decay nor moments may move a weight.
TEST(Trainer, ABatchWithoutATargetChangesNoWeight) {
  TextSource source;
  for (const char* optimizer : {"adamw", "sgd", "lion"}) {
    auto trainer =
        tiny_trainer({{"optimizer", optimizer}, {"weight_decay", 0.1}, {"ema", 0.9}, {"lr", 0.01}});
    trainer->step(*source.next());
    Batch given = *source.next();
    given.set("keep", Tensor::from(Shape{4, 16}, std::vector<uint8_t>(64, 1)));
    const auto before = weights_of(*trainer), average = weights_of(*trainer->model("ema"));
    EXPECT_EQ(trainer->step(given), 0.0) << optimizer;
    EXPECT_EQ(weights_of(*trainer), before) << optimizer;
    EXPECT_EQ(weights_of(*trainer->model("ema")), average) << optimizer;
    trainer->step(*source.next());
    EXPECT_NE(weights_of(*trainer), before) << optimizer;
  }
}

TEST(Trainer, NonFiniteStops) {
  auto trainer = tiny_trainer();
  const auto before = weights_of(*trainer);
  try {
    trainer->step(poisoned());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_NE(error.text().find("step 1"), std::string::npos) << error.text();
  }
  EXPECT_EQ(weights_of(*trainer), before);
  EXPECT_EQ(trainer->steps_done(), 0);
  TextSource source;
  trainer->step(*source.next());
}

TEST(Trainer, FrozenTensorsStay) {
  auto trainer = tiny_trainer({{"freeze", {"model.embed_tokens.weight", "*norm*"}}});
  const auto before = weights_of(*trainer);
  TextSource source;
  trainer->run(source, 3);
  const auto after = weights_of(*trainer);
  for (const auto& [name, values] : before) {
    const bool frozen =
        name == "model.embed_tokens.weight" || name.find("norm") != std::string::npos;
    EXPECT_EQ(after.at(name) == values, frozen) << name;
  }
}

TEST(Trainer, AverageFollowsTheWeights) {
  auto trainer = tiny_trainer({{"ema", 0.5}});
  const auto start = weights_of(*trainer);
  TextSource source;
  trainer->step(*source.next());
  const auto live = weights_of(*trainer), average = weights_of(*trainer->model("ema"));
  for (const auto& [name, values] : live) {
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(average.at(name)[i], 0.5 * (values[i] + start.at(name)[i]), 1e-6);
  }
  EXPECT_THROW(tiny_trainer()->model("ema"), Error);
  EXPECT_THROW(trainer->model("best"), Error);
}

TEST(Trainer, VersionRisesWithEveryStep) {
  auto trainer = tiny_trainer();
  TextSource source;
  const int64_t before = trainer->model("live")->version();
  trainer->run(source, 2);
  EXPECT_EQ(trainer->model("live")->version(), before + 2);
}

// Sampling while training works: a forward pass on another thread sees one whole version or the
// next.
TEST(Trainer, ReadersOnAnotherThreadWaitForTheStep) {
  auto trainer = tiny_trainer(Json::object(), 2);
  TextSource source;
  const Batch batch = *source.next();
  std::atomic<bool> done{false};
  std::atomic<int> passes{0};
  std::thread reader([&, model = trainer->model("live")] {
    while (!done || passes == 0) {
      const Tensor logits = model::forward(*model, batch).at("logits");
      for (const float value : logits.as<float>()) ASSERT_TRUE(std::isfinite(value));
      ++passes;
    }
  });
  trainer->run(source, 20);
  done = true;
  reader.join();
  EXPECT_EQ(trainer->steps_done(), 20);
}

TEST(Trainer, ShapesMayChangeAndCompilesStayBounded) {
  auto trainer = tiny_trainer();
  TextSource small(2, 8), large(4, 16);
  for (int i = 0; i < 4; ++i) {
    trainer->step(*small.next());
    trainer->step(*large.next());
  }
  const double compiles = trainer->metric("compiles");
  for (int i = 0; i < 4; ++i) {
    trainer->step(*small.next());
    trainer->step(*large.next());
  }
  EXPECT_EQ(trainer->metric("compiles"), compiles);
}

// A source that takes a while and remembers how it was used.
class SlowSource final : public BatchSource {
public:
  std::optional<Batch> next() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return text_.next();
  }
  int64_t position() const override { return text_.position(); }
  void seek(int64_t position) override { text_.seek(position); }
  void start_ahead(int64_t most) override { most_ = most; }
  void stop_ahead() override { ++stops_; }
  int64_t most_ = 0, stops_ = 0;

private:
  TextSource text_;
};

TEST(Trainer, CountsTheSecondsAStepWaitedForAllItsBatches) {
  SlowSource source;
  auto trainer = tiny_trainer({{"accumulate", 3}});
  trainer->run(source, 2);
  EXPECT_GE(trainer->metric("input_wait"), 0.06);
  EXPECT_EQ(source.most_, 6);
  EXPECT_EQ(source.stops_, 1);
  EXPECT_THROW(
      trainer->run(source, 2, [](const Event&) -> Answer { fail(Code::internal, "of the host"); }),
      Error);
  EXPECT_EQ(source.stops_, 2);
}

TEST(Trainer, EventsStopAndFail) {
  TextSource source;
  auto trainer = tiny_trainer();
  int events = 0;
  EXPECT_FALSE(trainer->run(source, 10, [&](const Event& event) {
    EXPECT_EQ(event.kind(), EventKind::train_step);
    for (const char* key :
         {"step", "loss", "grad_norm", "lr", "tokens", "tokens_per_second", "mfu", "memory",
          "compiles", "skipped", "checkpoint_stall_seconds", "input_wait", "rank_wait"}) {
      EXPECT_NE(event.find(key), nullptr) << key;
    }
    return ++events == 3 ? Answer::stop : Answer::go_on;
  }));
  EXPECT_EQ(events, 3);
  try {
    trainer->run(source, 10, [](const Event&) { return Answer::fail; });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::callback_failed);
  }
  EXPECT_EQ(trainer->steps_done(), 4);
}

TEST(Trainer, EndOfDataAndBudget) {
  TextSource short_source(4, 16, 3);
  auto trainer = tiny_trainer({{"tokens", 5 * 4 * 16}});
  EXPECT_THROW(trainer->run(short_source, 10), Error);
  EXPECT_EQ(trainer->steps_done(), 3);
  TextSource source;
  EXPECT_FALSE(trainer->run(source, 10));
  EXPECT_EQ(trainer->steps_done(), 5);
}

TEST(Trainer, AStepCancelledAnywhereDoesNotCount) {
  TextSource source;
  auto cut = tiny_trainer({{"ema", 0.9}}), whole = tiny_trainer({{"ema", 0.9}});
  const Batch batch = *source.next();
  const auto before = weights_of(*cut);
  const int64_t checks = test::count_checks([&](const Task* task) { whole->step(batch, task); });
  EXPECT_GT(checks, 50); // every kernel, forward and backward
  for (int64_t at = 1; at <= checks; ++at) {
    test::cancel_at(at, [&](const Task* task) { cut->step(batch, task); });
    ASSERT_EQ(weights_of(*cut), before) << "check " << at << " of " << checks;
    ASSERT_EQ(cut->steps_done(), 0);
  }
  // Moments and averages are untouched too: both go on to the same bits.
  EXPECT_EQ(cut->step(batch), whole->metric("loss"));
  const Batch next = *source.next();
  EXPECT_EQ(cut->step(next), whole->step(next));
  EXPECT_EQ(weights_of(*cut), weights_of(*whole));
}

// The batch of the step that was given up comes again, micro-batches that were added stay.
TEST(Trainer, ARunCancelledAnywhereGoesOnToTheSameBits) {
  for (const int64_t accumulate : {1, 2}) {
    const Json options = {{"accumulate", accumulate}};
    const auto whole = tiny_trainer(options);
    TextSource all;
    const auto whole_run = [&](Task* task) { whole->run(all, 3, nullptr, task); };
    const int64_t checks = test::count_checks(whole_run);
    const auto cut = tiny_trainer(options);
    TextSource parts;
    for (int64_t left = 3; left > 0; left = 3 - cut->steps_done()) {
      Task task;
      task.cancel_at_check(accumulate == 1 ? checks / 2 : checks / 4);
      try {
        cut->run(parts, left, nullptr, &task);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::cancelled);
        EXPECT_EQ(parts.position(), accumulate * cut->steps_done() + cut->accumulated());
      }
    }
    EXPECT_EQ(parts.position(), all.position());
    EXPECT_EQ(weights_of(*cut), weights_of(*whole)) << "accumulate " << accumulate;
  }
}

TEST(Trainer, AnEvaluationIsCancelledInsideOfABatch) {
  TextSource source;
  auto trainer = tiny_trainer();
  const auto evaluate = [&](Task* task) { trainer->eval(source, 1, task); };
  evaluate(nullptr); // compiles the program, which later calls find
  const int64_t checks = test::count_checks(evaluate);
  EXPECT_GT(checks, 20);
  for (const int64_t at : test::some_of(checks)) test::cancel_at(at, evaluate);
}

TEST(Trainer, SettingsChangeBetweenSteps) {
  TextSource source;
  auto trainer = tiny_trainer({{"warmup", 0}});
  trainer->set_f64("lr", 1e-4);
  trainer->step(*source.next());
  EXPECT_NEAR(trainer->metric("lr"), 1e-4, 1e-9);
  EXPECT_THROW(trainer->set_f64("lrr", 1), Error);
  EXPECT_THROW(trainer->set_f64("lr", -1), Error);
  EXPECT_THROW(trainer->metric("los"), Error);
  const Json described = trainer->describe();
  EXPECT_EQ(described.at("objective").at("name"), "mdlm");
  EXPECT_TRUE(described.at("metrics").contains("nll"));
}

TEST(Trainer, ClippingBoundsTheUpdate) {
  TextSource source;
  const Batch batch = *source.next();
  auto trainer = tiny_trainer({{"clip", 1e-3}});
  trainer->step(batch);
  EXPECT_GT(trainer->metric("grad_norm"), 1e-3); // reported before clipping
  // The first moment is (1 - beta1) times the clipped gradient.
  auto free_trainer = tiny_trainer({{"clip", 0.0}});
  free_trainer->step(batch);
  EXPECT_NEAR(free_trainer->metric("grad_norm"), trainer->metric("grad_norm"), 1e-6);
}

} // namespace
} // namespace dllm::train
