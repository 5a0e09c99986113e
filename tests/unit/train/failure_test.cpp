// Steps that fail in every way: trainer and model are as before, or calls report them as lost.

#include "base/error.h"
#include "graph/engine.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/counting_engine.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

namespace dllm::train {
namespace {

struct Bed {
  std::shared_ptr<test::CountingEngine> engine =
      std::make_shared<test::CountingEngine>(tiny_engine());
  std::shared_ptr<model::Model> model = tiny_model(engine);
  std::unique_ptr<Trainer> trainer;
  TextSource source;

  explicit Bed(const Json& values = {{"ema", 0.9}})
      : trainer(std::make_unique<Trainer>(model, noise::make_objective("mdlm"),
                                          trainer_options(values))) {}
  double step() { return trainer->step(*source.next()); }
};

// What is thrown, and when; the state is not lost.
struct Failure {
  const char* name;
  std::function<void()> raise;
  friend void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.name; }
};

class StepFailure : public ::testing::TestWithParam<Failure> {};

TEST_P(StepFailure, LeavesEverythingAsItWas) {
  for (const bool after : {false, true}) {
    Bed failing, twin;
    failing.step(), twin.step();
    const auto before = weights_of(*failing.model);
    const int64_t version = failing.model->version();
    auto& hook = after ? failing.engine->watch->after_run : failing.engine->watch->before_run;
    const Batch batch = *failing.source.next();
    hook = GetParam().raise;
    EXPECT_ANY_THROW(failing.trainer->step(batch));
    hook = nullptr;
    EXPECT_EQ(weights_of(*failing.model), before); // there, and not waited for
    EXPECT_EQ(failing.model->version(), version);
    EXPECT_EQ(failing.model->params().lost(), "");
    EXPECT_NO_THROW(failing.trainer->model("ema"));
    EXPECT_EQ(failing.trainer->step(batch), twin.step());
    EXPECT_EQ(weights_of(*failing.model), weights_of(*twin.model));
  }
}

TEST_P(StepFailure, OfAMicroBatchKeepsTheSums) {
  Bed failing, twin;
  const Batch first = *failing.source.next(), second = *failing.source.next();
  for (Bed* bed : {&failing, &twin}) bed->trainer->accumulate(first);
  failing.engine->watch->before_run = GetParam().raise;
  EXPECT_ANY_THROW(failing.trainer->accumulate(second));
  EXPECT_ANY_THROW(failing.trainer->apply());
  failing.engine->watch->before_run = nullptr;
  for (Bed* bed : {&failing, &twin}) bed->trainer->accumulate(second);
  EXPECT_EQ(failing.trainer->apply(), twin.trainer->apply());
  EXPECT_EQ(weights_of(*failing.model), weights_of(*twin.model));
}

INSTANTIATE_TEST_SUITE_P(
    Train, StepFailure,
    ::testing::Values(Failure{"error", [] { fail(Code::unavailable, "busy"); }},
                      Failure{"bad_alloc", [] { throw std::bad_alloc(); }},
                      Failure{"runtime_error", [] { throw std::runtime_error("no threads"); }},
                      Failure{"number", [] { throw 5; }}),
    [](const auto& info) { return info.param.name; });

TEST(LostState, IsReportedAtOnceByTrainerAndModelAndRestoredByACheckpoint) {
  Bed bed;
  bed.step();
  const test::TempFolder folder;
  const std::string saved =
      save_checkpoint(*bed.trainer, &bed.source, folder.path(), Options(checkpoint_schema()));
  const auto before = weights_of(*bed.model);
  bed.engine->watch->after_run = [] {
    throw graph::StateLost(Code::unavailable, "the device is lost", "half written");
  };
  EXPECT_EQ(test::error_of([&] { bed.step(); }).code(), Code::unavailable);
  bed.engine->watch->after_run = nullptr;
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, 2}, std::vector<int32_t>{1, 2}));
  const std::vector<std::function<void()>> uses = {
      [&] { bed.step(); },
      [&] { bed.trainer->model("ema"); },
      [&] { bed.model->params().snapshot(); },
      [&] { weights_of(*bed.model); },
      [&] { model::forward(*bed.model, batch); },
      [&] {
        save_checkpoint(*bed.trainer, nullptr, folder.path("other"), Options(checkpoint_schema()));
      },
      [&] { Trainer(bed.model, noise::make_objective("mdlm"), trainer_options()); }};
  for (const auto& use : uses) {
    const Error error = test::error_of(use);
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_NE(error.text().find("lost: the device is lost"), std::string::npos) << error.text();
  }
  restore_checkpoint(*bed.trainer, &bed.source, saved);
  EXPECT_EQ(weights_of(*bed.model), before);
  EXPECT_NO_THROW(bed.step());
}

TEST(LostState, AMicroBatchLosesNoWeights) {
  Bed bed;
  bed.step();
  const auto before = weights_of(*bed.model);
  bed.engine->watch->after_run = [] {
    throw graph::StateLost(Code::unavailable, "the device is lost", "half written");
  };
  const Batch batch = *bed.source.next();
  EXPECT_EQ(test::error_of([&] { bed.trainer->accumulate(batch); }).code(), Code::unavailable);
  bed.engine->watch->after_run = nullptr;
  EXPECT_EQ(test::error_of([&] { bed.step(); }).code(), Code::aborted); // the sums are lost
  EXPECT_EQ(bed.model->params().lost(), "");
  EXPECT_EQ(weights_of(*bed.model), before);
}

// Read in another thread at every moment of steps: never null, never parts of two versions.
TEST(ReadersDuringSteps, SeeWholeVersions) {
  Bed bed;
  bed.step();
  std::atomic<bool> ends{false};
  int64_t reads = 0;
  bool finite = true;
  std::thread reader([&] {
    while (!ends || reads < 20) {
      for (const auto& [name, values] : weights_of(*bed.trainer->model("ema")))
        finite = finite && std::isfinite(values[0]);
      finite = finite && bed.model->params().bytes() > 0;
      ++reads;
    }
  });
  for (int i = 0; i < 20; ++i) bed.step();
  ends = true;
  reader.join();
  EXPECT_TRUE(finite);
}

TEST(CheckpointCosts, EachStackIsReadOnce) {
  Bed bed;
  bed.step();
  const test::TempFolder folder;
  const auto stacks = static_cast<int64_t>(bed.model->params().physical().size());
  const auto trained = 3 * stacks; // two moments and the average, nothing is frozen
  bed.engine->watch->reads = 0;
  save_checkpoint(*bed.trainer, &bed.source, folder.path(), Options(checkpoint_schema()));
  EXPECT_EQ(bed.engine->watch->reads, stacks + trained);
  bed.engine->watch->reads = bed.engine->watch->uploads = 0;
  bed.trainer->model("ema");
  EXPECT_EQ(bed.engine->watch->reads, stacks);
  EXPECT_EQ(bed.engine->watch->uploads, stacks);
}

} // namespace
} // namespace dllm::train
