// Steps whose loss is read late, against the same steps read at once.

#include "base/files.h"
#include "late_engine.h"
#include "train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <unistd.h>

namespace dllm::train {
namespace {

struct Late {
  explicit Late(const Json& options = Json::object())
      : engine(std::make_shared<LateEngine>()),
        trainer(std::make_unique<Trainer>(tiny_model(engine), noise::make_objective("mdlm"),
                                          trainer_options(options))) {}
  // Runs that are queued: no caller needed their results yet.
  int64_t waiting() const { return engine->queue->started - engine->queue->executed; }

  std::shared_ptr<LateEngine> engine;
  std::unique_ptr<Trainer> trainer;
};

// Step and loss of every event.
using Seen = std::vector<std::pair<int64_t, double>>;
EventFn listen(Seen& seen) {
  return [&seen](const Event& event) {
    if (event.kind() == EventKind::train_step) {
      seen.emplace_back(std::get<int64_t>(*event.find("step")),
                        std::get<double>(*event.find("loss")));
    }
    return Answer::go_on;
  };
}

TEST(LateLoss, StepsStartWithoutWaiting) {
  Late late;
  TextSource source;
  for (int i = 1; i <= 5; ++i) {
    late.trainer->start_step(*source.next());
    EXPECT_EQ(late.waiting(), std::min(i, 2)) << "after step " << i;
    EXPECT_EQ(late.trainer->metric("step"), std::max(i - 2, 0));
    EXPECT_EQ(late.trainer->steps_done(), i);
  }
  late.trainer->sync();
  EXPECT_EQ(late.waiting(), 0);
  EXPECT_EQ(late.trainer->metric("step"), 5);
}

TEST(LateLoss, ValuesOrderAndBitsAreThoseOfSteps) {
  const Json options = {{"schedule", "cosine"}, {"steps", 12}, {"ema", 0.8}};
  Late late(options);
  auto plain = tiny_trainer(options);
  TextSource a, b;
  Seen expected, seen;
  plain->run(a, 7, listen(expected));
  late.trainer->run(b, 7, listen(seen));
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(late.waiting(), 0);
  EXPECT_EQ(weights_of(*late.trainer), weights_of(*plain));
  EXPECT_EQ(weights_of(*late.trainer->model("ema")), weights_of(*plain->model("ema")));
  for (const char* key : {"loss", "nll", "grad_norm", "lr", "tokens", "step"})
    EXPECT_EQ(late.trainer->metric(key), plain->metric(key)) << key;
  const Batch next = *a.next();
  EXPECT_EQ(late.trainer->step(next), plain->step(next)); // asking for the loss waits for it
}

TEST(LateLoss, ARunWaitsWhereItsOptionsSay) {
  Late late(Json{{"sync_every", 3}});
  TextSource source;
  std::vector<int64_t> ahead; // steps the trainer was beyond the one it reported
  late.trainer->run(source, 7, [&](const Event& event) {
    ahead.push_back(late.trainer->steps_done() - std::get<int64_t>(*event.find("step")));
    return Answer::go_on;
  });
  ASSERT_EQ(ahead.size(), 7u);
  EXPECT_EQ(ahead[2], 0);
  EXPECT_EQ(ahead[5], 0);
  EXPECT_GT(ahead[3], 0);
}

TEST(LateLoss, AccumulatedBatchesAreTheSame) {
  Late late(Json{{"accumulate", 3}});
  auto plain = tiny_trainer({{"accumulate", 3}});
  TextSource a, b;
  Seen expected, seen;
  plain->run(a, 4, listen(expected));
  late.trainer->run(b, 4, listen(seen));
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(weights_of(*late.trainer), weights_of(*plain));
}

TEST(LateLoss, NonFiniteStopsLateAndChangesNothing) {
  Late late;
  auto plain = tiny_trainer();
  TextSource source;
  const Batch first = *source.next(), second = *source.next();
  plain->step(first);
  late.trainer->start_step(first);
  late.trainer->start_step(poisoned());
  late.trainer->start_step(second); // started behind it: left out as well
  EXPECT_EQ(late.trainer->steps_done(), 3);
  try {
    late.trainer->sync();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_NE(error.text().find("step 2"), std::string::npos) << error.text();
  }
  EXPECT_EQ(late.trainer->steps_done(), 1);
  EXPECT_EQ(weights_of(*late.trainer), weights_of(*plain));
  late.trainer->sync(); // reported once
  EXPECT_EQ(late.trainer->step(second), plain->step(second));
  EXPECT_EQ(weights_of(*late.trainer), weights_of(*plain));
}

TEST(LateLoss, NonFiniteBehindMicroBatchesLeavesNoSum) {
  Late late;
  auto plain = tiny_trainer();
  TextSource source;
  const Batch batch = *source.next();
  late.trainer->start_step(poisoned());
  late.trainer->accumulate(batch);
  EXPECT_THROW(late.trainer->start_apply(), Error);
  EXPECT_EQ(late.trainer->accumulated(), 0);
  late.trainer->accumulate(batch);
  plain->accumulate(batch);
  EXPECT_EQ(late.trainer->apply(), plain->apply());
  EXPECT_EQ(weights_of(*late.trainer), weights_of(*plain));
}

TEST(LateLoss, SkippedStepsAreCountedLate) {
  Late late(Json{{"nonfinite", "skip"}});
  TextSource source;
  late.trainer->start_step(poisoned());
  late.trainer->start_step(*source.next());
  EXPECT_EQ(late.trainer->metric("skipped"), 0);
  late.trainer->start_step(*source.next());
  EXPECT_EQ(late.trainer->metric("skipped"), 1);
  EXPECT_EQ(late.trainer->metric("step"), 1);
  late.trainer->sync();
  EXPECT_EQ(late.trainer->metric("skipped"), 1);
  EXPECT_EQ(late.trainer->metric("step"), 3);
}

TEST(LateLoss, ADeviceErrorComesLateAndTheStateIsLost) {
  Late late;
  TextSource source;
  late.trainer->start_step(*source.next());
  late.engine->queue->fail_at = 1;
  late.trainer->start_step(*source.next());
  late.trainer->start_step(*source.next());
  try {
    late.trainer->start_step(*source.next());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_NE(error.text().find("the device is lost"), std::string::npos);
  }
  EXPECT_EQ(late.trainer->metric("step"), 1);
  try {
    late.trainer->sync();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_NE(error.hint().find("checkpoint"), std::string::npos);
  }
}

TEST(LateLoss, CheckpointsAndEvaluationsComeAfterWhatTheyFollow) {
  const std::string root = testing::TempDir() + "/dllm_late_" + std::to_string(getpid());
  remove_all(root);
  Late late(Json{{"root", root}, {"save_every", 3}});
  auto plain = tiny_trainer();
  TextSource source, other;
  std::vector<std::string> order;
  late.trainer->run(source, 7, [&](const Event& event) {
    const auto step = std::to_string(std::get<int64_t>(*event.find("step")));
    order.push_back((event.kind() == EventKind::checkpoint ? "saved " : "step ") + step);
    return Answer::go_on;
  });
  EXPECT_EQ(order, (std::vector<std::string>{"step 1", "step 2", "step 3", "saved 3", "step 4",
                                             "step 5", "step 6", "saved 6", "step 7", "saved 7"}));
  plain->run(other, 7);
  auto resumed = tiny_trainer();
  restore_checkpoint(*resumed, nullptr, join_path(root, "step_000007"));
  EXPECT_EQ(weights_of(*resumed), weights_of(*plain));

  late.trainer->start_step(*source.next());
  TextSource held;
  late.trainer->eval(held, 1);
  EXPECT_EQ(late.trainer->metric("step"), 8);
  // A restored trainer has forgotten what was in flight.
  late.trainer->start_step(poisoned());
  restore_checkpoint(*late.trainer, nullptr, join_path(root, "step_000007"));
  late.trainer->sync();
  EXPECT_EQ(late.trainer->steps_done(), 7);
  remove_all(root);
}

TEST(LateLoss, EveryStepIsReportedAtTheEnd) {
  Late late;
  TextSource short_source(4, 16, 3);
  Seen seen;
  EXPECT_THROW(late.trainer->run(short_source, 10, listen(seen)), Error);
  EXPECT_EQ(seen.size(), 3u);
  // Stopped: no event more, but the steps that were in flight count.
  TextSource source;
  int events = 0;
  EXPECT_FALSE(late.trainer->run(
      source, 10, [&](const Event&) { return ++events == 2 ? Answer::stop : Answer::go_on; }));
  EXPECT_EQ(events, 2);
  EXPECT_EQ(late.trainer->steps_done(), 3 + 4);
  EXPECT_EQ(late.trainer->metric("step"), 7);
}

} // namespace
} // namespace dllm::train
