// Steps that run as a loop of one program decide what the host's loop decides: the same tokens,
// states, probabilities, traces, events and counts, bit for bit on the CPU engine.

#include "decode/loop/loop_program.h"
#include "unit/cancel.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

// Windows and keys of these canvases: at most so many shapes on the ladder.
constexpr int64_t kRungs = 2;

const std::vector<TestRequest> kRequests = {
    {{3, 1, 4}, 11, 9}, {{}, 5, 14}, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 13}, {{7, 7, 7, 7, 7}, 2, 2}};

struct Kind {
  std::string name;
  Json values;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

Json with(Json values, const Json& more) {
  values.update(more);
  return values;
}

Json blocks(const std::string& policy, const Json& more = Json::object()) {
  return with({{"policy", policy}, {"steps", 12}, {"block_length", 4}, {"suppress_mask", true}},
              more);
}

Json spd(const Json& more = Json::object()) {
  return with({{"policy", "spd"}, {"block_length", 4}, {"suppress_mask", true}}, more);
}

// All that a caller can see of a slot.
std::string seen(const Decoder& decoder, int64_t slot) {
  const Request& s = decoder.request(slot);
  Json made = {{"ids", s.ids}, {"confidence", s.confidence}};
  for (const State state : s.states) made["states"].push_back(static_cast<int>(state));
  for (const char* key :
       {"done", "finish", "steps", "nfe", "prefills", "commits", "decided", "open"})
    made[key] = decoder.metric(slot, key);
  return made.dump() + "\n" + decoder.trace(slot);
}

// The events of every slot, in order.
struct Listener {
  std::map<int64_t, std::string> text;
  EventFn fn() {
    return [this](const Event& event) {
      const Json said = event.to_json();
      text[said.at("slot")] += said.dump() + "\n";
      return dllm::Answer::go_on;
    };
  }
};

class LoopPolicy : public ::testing::TestWithParam<Kind> {
protected:
  std::unique_ptr<Decoder> decoder(const std::string& loop, const Json& more = Json::object()) {
    return make_decoder(model_,
                        with(with(GetParam().values, more), {{"loop", loop}, {"trace", true}}));
  }
  std::shared_ptr<model::Model> model_ = tiny_model(2);
};

TEST_P(LoopPolicy, DecidesWhatTheHostDecides) {
  for (const int shift : {0, 1}) {
    for (const double temperature : {0.0, 0.9}) {
      const Json more = {{"shift", shift}, {"temperature", temperature}, {"top_k", 12}};
      const auto host = decoder("host", more), device = decoder("device", more);
      for (const TestRequest& request : kRequests) add(*host, request), add(*device, request);
      Listener live, replayed;
      host->run(live.fn());
      device->run(replayed.fn());
      for (int64_t slot = 0; slot < 4; ++slot) {
        EXPECT_EQ(seen(*device, slot), seen(*host, slot)) << "slot " << slot << " shift " << shift;
        EXPECT_EQ(replayed.text[slot], live.text[slot]);
      }
      EXPECT_LT(device->metric(-1, "round_trips"), host->metric(-1, "round_trips"));
    }
  }
}

TEST_P(LoopPolicy, PulledAndPushedAloneAndTogetherAreTheSame) {
  const Json more = {{"temperature", 0.9}};
  const auto pushed = decoder("device", more), pulled = decoder("device", more);
  for (const TestRequest& request : kRequests) add(*pushed, request), add(*pulled, request);
  pushed->run();
  int64_t steps = 1;
  while (pulled->step() > 0) ++steps;
  EXPECT_GT(steps, 3);
  for (size_t i = 0; i < kRequests.size(); ++i) {
    const auto slot = static_cast<int64_t>(i);
    EXPECT_EQ(seen(*pulled, slot), seen(*pushed, slot)) << "slot " << slot;
    const auto alone = decoder("device", more);
    add(*alone, kRequests[i]);
    alone->run();
    EXPECT_EQ(answer_of(*alone), answer_of(*pushed, slot)) << "slot " << slot;
  }
}

TEST_P(LoopPolicy, GoesOnAfterCancelsStopsAndLateNeighbours) {
  const auto host = decoder("host"), device = decoder("device");
  add(*host, kRequests[0]), add(*device, kRequests[0]);
  host->run();
  const Answer before = answer_of(*device);
  const auto twin = decoder("device");
  add(*twin, kRequests[0]);
  const int64_t checks = test::count_checks([&](const Task* task) { twin->step(task); });
  for (const int64_t at : test::some_of(checks)) {
    test::cancel_at(at, [&](Task* task) { device->run(nullptr, task); });
    EXPECT_EQ(answer_of(*device), before) << "check " << at << " of " << checks;
    test::cancel_at(at, [&](const Task* task) { device->step(task); });
    EXPECT_EQ(answer_of(*device), before) << "check " << at << " of " << checks;
  }
  int events = 0; // what the loop did beyond this step is forgotten
  EXPECT_FALSE(device->run(
      [&](const Event&) { return ++events < 2 ? dllm::Answer::go_on : dllm::Answer::stop; }));
  EXPECT_LE(device->metric(0, "steps"), 2);
  add(*host, kRequests[2]), add(*device, kRequests[2]);
  device->predict(); // the host takes this step
  device->step();
  device->run(), host->run();
  for (const int64_t slot : {0, 1}) EXPECT_EQ(seen(*device, slot), seen(*host, slot));
}

TEST_P(LoopPolicy, WaitsOnceABlockAndCompilesThreePrograms) {
  const auto device = decoder("device");
  add(*device, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 24});
  const int64_t before = model_->engine().i64("compiles");
  device->run();
  EXPECT_LE(model_->engine().i64("compiles") - before, 3 * kRungs);
  EXPECT_LE(device->metric(-1, "round_trips"), 6 + 1); // the prompt may end inside a block
  EXPECT_EQ(device->metric(0, "round_trips"), device->metric(-1, "round_trips"));
  EXPECT_LE(device->metric(0, "launches"), 2 * device->metric(0, "round_trips"));
  const int64_t first = model_->engine().i64("compiles");
  add(*device, {{1, 2, 3, 4, 5, 6, 7, 8}, 8, 24});
  while (device->step() > 0) continue; // step by step: the same programs
  EXPECT_EQ(model_->engine().i64("compiles"), first);
}

INSTANTIATE_TEST_SUITE_P(
    Decode, LoopPolicy,
    ::testing::Values(
        Kind{"low_confidence", blocks("low_confidence")},
        Kind{"low_confidence_whole", blocks("low_confidence", {{"block_length", 0}})},
        Kind{"low_confidence_even", blocks("low_confidence", {{"plan", "even"}, {"steps", 7}})},
        Kind{"low_confidence_block_causal",
             blocks("low_confidence", {{"attention", "block_causal"}, {"cache", "none"}})},
        Kind{"low_confidence_exact", blocks("low_confidence", {{"attention", "block_causal"}})},
        Kind{"low_confidence_causal", blocks("low_confidence", {{"attention", "causal"}})},
        Kind{"low_confidence_masks", blocks("low_confidence", {{"suppress_mask", false}})},
        Kind{"random_masks", blocks("random", {{"suppress_mask", false}})},
        Kind{"ancestral_masks", blocks("ancestral", {{"suppress_mask", false}, {"steps", 5}})},
        Kind{"bd3lm_masks", blocks("bd3lm", {{"suppress_mask", false}})},
        Kind{"random", blocks("random")},
        Kind{"random_exact", blocks("random", {{"attention", "block_causal"}})},
        Kind{"ancestral", blocks("ancestral", {{"schedule", "cosine"}})},
        Kind{"ancestral_exact", blocks("ancestral", {{"attention", "block_causal"}})},
        Kind{"threshold", blocks("threshold", {{"threshold", 0.3}})},
        Kind{"threshold_exact",
             blocks("threshold", {{"threshold", 0.3}, {"attention", "block_causal"}})},
        Kind{"threshold_budget", blocks("threshold", {{"threshold", 0.1}, {"budget", true}})},
        Kind{"threshold_shaped",
             blocks("threshold",
                    {{"threshold", 0.6}, {"confidence", "shaped"}, {"temperature", 0.7}})},
        Kind{"factor", blocks("factor", {{"factor", 1.6}})},
        Kind{"factor_prefix", blocks("factor", {{"factor", 1.6}, {"ranks", "prefix"}})},
        Kind{"factor_scan", blocks("factor", {{"factor", 1.6}, {"ranks", "scan"}})},
        Kind{"entropy_bound", blocks("entropy_bound", {{"gamma", 1.5}})},
        Kind{"entropy_bound_confidence",
             blocks("entropy_bound", {{"gamma", 2.5}, {"order", "confidence"}})},
        Kind{"entropy_bound_margin",
             blocks("entropy_bound",
                    {{"gamma", 2.5}, {"order", "margin"}, {"attention", "block_causal"}})},
        Kind{"bd3lm", blocks("bd3lm")},
        Kind{"bd3lm_random", blocks("bd3lm", {{"remasking", "random"}, {"cache", "none"}})},
        Kind{"bd3lm_eos", blocks("bd3lm", {{"eos", 3}, {"steps_per_block", 2}})},
        Kind{"spd", spd()}, Kind{"spd_fast", spd({{"implementation", "fast"}})},
        Kind{"spd_bucket", spd({{"implementation", "fast"}, {"bucket_length", 8}})},
        Kind{"spd_low_threshold", spd({{"threshold", 0.2}})},
        Kind{"spd_all_at_once", spd({{"threshold", 0.0}, {"confidence_stop", 2.0}})},
        Kind{"spd_mix_of_three", spd({{"mix_top_k", 3}, {"threshold", 0.3}})},
        Kind{"spd_early_end", spd({{"threshold", 0.2}, {"confidence_stop", 0.3}})},
        Kind{"spd_two_steps", spd({{"steps", 2}, {"threshold", 1.0}, {"confidence_stop", 2.0}})},
        Kind{"spd_eos", spd({{"threshold", 0.1}, {"eos", 3}})},
        Kind{"spd_masks", spd({{"suppress_mask", false}, {"threshold", 0.1}})},
        Kind{"spd_jax", spd({{"compat", "dllm-jax"}, {"threshold", 0.1}})}),
    [](const auto& info) { return info.param.name; });

} // namespace
} // namespace dllm::decode
