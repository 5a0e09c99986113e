// Training on every plugin against the CPU engine: losses, weights, memory, events.

#include "graph/engine.h"
#include "model/plan.h"
#include "pjrt/engine.h"
#include "train/plan.h"
#include "unit/pjrt/plugins.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::pjrt {
namespace {

using train::TextSource;
using train::Trainer;

constexpr int64_t kSteps = 5;
constexpr double kLossTolerance = 2e-5; // relative
// AdamW's first steps move a weight by the rate whatever the size of its gradient: where a gradient
// is rounding itself, the two sides may step apart. So: nearly all weights within kNear, a share of
// kFarShare anywhere between the two ends of five steps.
constexpr double kNear = 2e-5, kFarShare = 2e-3, kRate = 3e-3;

class PjrtTraining : public OnPlugins {
protected:
  static std::shared_ptr<graph::Engine> engine() {
    Options options(graph::engine_schema());
    options.set_str("plugin", path());
    options.set_str("pjrt.cache", "off");
    return make_engine(options);
  }
  static std::unique_ptr<Trainer> trainer(const std::shared_ptr<graph::Engine>& engine,
                                          const Json& values = Json::object()) {
    return std::make_unique<Trainer>(train::tiny_model(engine), noise::make_objective("mdlm"),
                                     train::trainer_options(values));
  }
  static void expect_near(const Trainer& got, const Trainer& want) {
    const auto a = train::weights_of(got), b = train::weights_of(want);
    int64_t far = 0, all = 0;
    for (const auto& [name, values] : b) {
      for (size_t i = 0; i < values.size(); ++i, ++all) {
        const double distance = std::fabs(a.at(name)[i] - values[i]);
        far += distance > kNear ? 1 : 0;
        ASSERT_LE(distance, 2 * kSteps * kRate) << name << " " << i;
      }
    }
    EXPECT_LE(static_cast<double>(far), kFarShare * static_cast<double>(all)) << "of " << all;
  }
};

TEST_P(PjrtTraining, FiveStepsAreThoseOfTheCpuEngine) {
  const auto mine = engine();
  for (const Json& options :
       {Json{{"remat", false}}, Json{{"remat", true}, {"ema", 0.9}}, Json{{"accumulate", 2}}}) {
    const auto got = trainer(mine, options), want = trainer(train::tiny_engine(), options);
    std::vector<double> losses[2];
    for (const auto* one : {&got, &want}) {
      TextSource source;
      (*one)->run(source, kSteps, [&](const Event& event) {
        if (event.kind() == EventKind::train_step)
          losses[one == &want].push_back(std::get<double>(*event.find("loss")));
        return Answer::go_on;
      });
    }
    ASSERT_EQ(losses[0].size(), static_cast<size_t>(kSteps));
    for (size_t i = 0; i < losses[1].size(); ++i) {
      EXPECT_NEAR(losses[0][i], losses[1][i], kLossTolerance * losses[1][i])
          << options.dump() << " step " << i + 1;
    }
    expect_near(*got, *want);
  }
}

TEST_P(PjrtTraining, StateIsWrittenInPlaceAndAStepIsReadOnce) {
  const auto mine = engine();
  const auto one = trainer(mine);
  TextSource source;
  one->run(source, 3);
  const int64_t used = mine->i64("memory_used"), trips = mine->i64("round_trips");
  const int64_t compiles = mine->i64("compiles");
  one->run(source, 6);
  EXPECT_EQ(mine->i64("memory_used"), used);
  EXPECT_EQ(mine->i64("compiles"), compiles);
  EXPECT_LE(mine->i64("round_trips") - trips, 6);
}

TEST_P(PjrtTraining, LossIsLateAndInOrder) {
  const auto one = trainer(engine());
  TextSource source;
  for (int i = 1; i <= 5; ++i) {
    one->start_step(*source.next());
    EXPECT_EQ(one->metric("step"), std::max(i - 2, 0));
  }
  one->sync();
  EXPECT_EQ(one->metric("step"), 5);
  // A loss that is not finite is reported late, and leaves the weights as they were before it.
  const auto before = train::weights_of(*one);
  one->start_step(train::poisoned());
  one->start_step(*source.next());
  try {
    one->sync();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_NE(error.text().find("step 6"), std::string::npos) << error.text();
  }
  EXPECT_EQ(train::weights_of(*one), before);
  EXPECT_TRUE(std::isfinite(one->step(*source.next())));
  EXPECT_EQ(one->steps_done(), 6);
}

// The layers of the forward and of the backward pass are two loops: the compiler cannot merge what
// the second one computes again with the first.
TEST_P(PjrtTraining, RematSurvivesTheCompiler) {
  constexpr int64_t kHidden = 32, kInner = 64, kBatch = 8, kLength = 64;
  const auto mine = engine();
  const auto temporaries = [&](int64_t layers, bool remat) {
    Json config = train::tiny_config();
    config.update({{"num_hidden_layers", layers},
                   {"hidden_size", kHidden},
                   {"head_dim", kHidden / 4},
                   {"num_key_value_heads", 4},
                   {"intermediate_size", kInner}});
    Options options(model::plan_schema());
    options.set_json(
        Json{{"what", "train"}, {"batch", kBatch}, {"length", kLength}, {"remat", remat}});
    const model::Job job =
        train::training_job(mine, model::config_from_json(config, "test"), options);
    return mine->compile(job.graph)->plan().compiled.temporary_bytes;
  };
  const int64_t plain = (temporaries(10, false) - temporaries(2, false)) / 8;
  const int64_t remat = (temporaries(10, true) - temporaries(2, true)) / 8;
  // Of a layer only its input is kept, and its gradients.
  const int64_t input = 4 * kBatch * kLength * kHidden;
  const int64_t gradients = 4 * (4 * kHidden * kHidden + 3 * kHidden * kInner + 4 * kHidden);
  EXPECT_LE(remat, 2 * (input + gradients));
  EXPECT_GE(plain, 5 * remat);
}

DLLM_ON_PLUGINS(PjrtTraining);

} // namespace
} // namespace dllm::pjrt
