// A session plans every pass once: as often as its request runs passes.

#include "decode/request/policy.h"
#include "unit/decode/requests.h"

#include <gtest/gtest.h>

#include <string>

namespace dllm::decode {
namespace {

struct Calls {
  int64_t passes = 0, loops = 0;
};

// Forwards to the session of a policy and counts the passes that it plans.
class CountedSession final : public Session {
public:
  CountedSession(std::unique_ptr<Session> inner, std::shared_ptr<Calls> calls)
      : inner_(std::move(inner)), calls_(std::move(calls)) {}
  std::unique_ptr<Session> clone() const override {
    return std::make_unique<CountedSession>(inner_->clone(), calls_);
  }
  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    ++calls_->passes;
    return inner_->next_pass(request, cache);
  }
  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override {
    return inner_->apply(request, pass, predictions);
  }
  Outcome host_decided(Request& request, const std::vector<int64_t>& decided) override {
    return inner_->host_decided(request, decided);
  }
  LoopPlan plan_loop(const Request& request, const CacheView& cache) const override {
    ++calls_->loops;
    return inner_->plan_loop(request, cache);
  }
  LoopTables loop_tables(const Request& request, int64_t steps) const override {
    return inner_->loop_tables(request, steps);
  }

private:
  std::unique_ptr<Session> inner_;
  std::shared_ptr<Calls> calls_;
};

class CountedPolicy final : public Policy {
public:
  CountedPolicy(const PolicySetup& setup, std::shared_ptr<Calls> calls)
      : Policy(setup), inner_(make_policy(setup.options.str("policy"), setup)),
        calls_(std::move(calls)) {}
  std::unique_ptr<Session> begin(Request& request) const override {
    return std::make_unique<CountedSession>(inner_->begin(request), calls_);
  }
  PredictionNeeds needs() const override { return inner_->needs(); }
  LoopOffer loop() const override { return inner_->loop(); }

private:
  std::unique_ptr<Policy> inner_;
  std::shared_ptr<Calls> calls_;
};

struct Counted {
  std::shared_ptr<Calls> calls = std::make_shared<Calls>();
  std::unique_ptr<Decoder> decoder;

  int64_t metric(const char* key) const { return static_cast<int64_t>(decoder->metric(-1, key)); }
};

// The requests begin their blocks at different steps, so that they fill their caches in turns.
Counted with_requests(const Json& values) {
  Counted made;
  Options options(decoder_schema(values.at("policy")));
  options.set_json(values);
  made.decoder = std::make_unique<Decoder>(tiny_model(), options, [&](const PolicySetup& setup) {
    return std::make_unique<CountedPolicy>(setup, made.calls);
  });
  add(*made.decoder, {{3, 1, 4, 1, 5, 9, 2, 6, 5}, 11, 9});
  add(*made.decoder, {{8, 8, 1, 29}, 14, 5});
  add(*made.decoder, {{2}, 6, 7});
  return made;
}

class PlannedPasses : public ::testing::TestWithParam<Json> {};

TEST_P(PlannedPasses, ArePlannedOnce) {
  const Counted made = with_requests(GetParam());
  made.decoder->run();
  EXPECT_EQ(made.metric("done"), 1);
  EXPECT_EQ(made.calls->passes,
            made.metric("prefills") + made.metric("commits") + made.metric("steps"));
}

TEST_P(PlannedPasses, ArePlannedOnceInSingleSteps) {
  const Counted made = with_requests(GetParam());
  while (made.decoder->step() > 0) {
    EXPECT_EQ(made.calls->passes,
              made.metric("prefills") + made.metric("commits") + made.metric("steps"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, PlannedPasses,
    testing::Values(Json{{"policy", "low_confidence"}, {"steps", 6}},
                    Json{
                        {"policy", "low_confidence"}, {"attention", "causal"}, {"block_length", 4}},
                    Json{{"policy", "low_confidence"}, {"cache", "dual"}, {"block_length", 4}},
                    Json{{"policy", "spd"}, {"block_length", 4}, {"implementation", "kv_fast"}},
                    Json{{"policy", "autoregressive"}}, Json{{"policy", "self_speculation"}},
                    Json{{"policy", "multi_block"}, {"cache", "delayed"}}));

// A loop is planned once per block and request, and once more after a pass that fills the cache.
TEST(PlannedLoops, ArePlannedOnceForEveryLaunch) {
  const Counted made = with_requests(
      {{"policy", "spd"}, {"block_length", 4}, {"implementation", "kv_fast"}, {"loop", "device"}});
  made.decoder->run();
  int64_t launches = 0;
  for (int64_t slot = 0; slot < 3; ++slot)
    launches += static_cast<int64_t>(made.decoder->metric(slot, "launches"));
  EXPECT_EQ(made.calls->loops, launches);
  EXPECT_EQ(made.calls->passes, made.metric("steps"));
}

} // namespace
} // namespace dllm::decode
