// Decoding on every plugin: the steps of a block as one loop decide the tokens that the CPU
// engine's host loop decides, by the margin rule, and the host waits once a block.

#include "pjrt/engine.h"
#include "unit/decode/policies/latent_rule.h"
#include "unit/decode/requests.h"
#include "unit/pjrt/plugins.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace dllm::pjrt {
namespace {

using decode::Decoder;

// Of equal length: a compiler takes its time for every shape.
const std::vector<decode::TestRequest> kRequests = {{{3, 1, 4, 1, 5}, 11, 11},
                                                    {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 8}};

constexpr double kMargin = 1e-4;

std::shared_ptr<graph::Engine> engine_of(const std::string& plugin) {
  Options options(graph::engine_schema());
  options.set_str("kind", "pjrt");
  options.set_str("plugin", plugin);
  options.set_str("pjrt.cache", "off");
  return make_engine(options);
}

std::shared_ptr<model::Model> model_on(std::shared_ptr<graph::Engine> engine) {
  return model::new_model(std::move(engine), decode::tiny_config(), Options(model::model_schema()));
}

Json blocks(const char* policy, Json more = Json::object()) {
  Json values = {{"policy", policy},
                 {"steps", 12},
                 {"block_length", 4},
                 {"suppress_mask", true},
                 {"trace", true}};
  values.update(more);
  return values;
}

// The traces of a slot, one line a step.
std::vector<Json> steps_of(const Decoder& decoder, int64_t slot) {
  std::vector<Json> steps;
  std::istringstream lines(decoder.trace(slot));
  for (std::string line; std::getline(lines, line);) steps.push_back(Json::parse(line));
  return steps;
}

// The smallest distance of anything that is compared in the coming step of the host's loop: the
// likeliest two tokens of a position, two positions, a probability and the threshold.
double least_margin(const Decoder& host, int64_t slot, double threshold) {
  const Batch said = host.statistics(slot);
  const auto p = said.at("max_probability").as<float>();
  const Tensor& top = said.at("top_probs");
  double least = 1;
  for (size_t i = 0; i < p.size(); ++i) {
    least = std::min(least, std::fabs(static_cast<double>(p[i]) - threshold));
    for (size_t j = 0; j < i; ++j)
      least = std::min(least, std::fabs(static_cast<double>(p[i]) - static_cast<double>(p[j])));
    if (top.shape()[1] < 2) continue;
    const auto both = top.as<float>().subspan(i * static_cast<size_t>(top.shape()[1]), 2);
    least = std::min(least, static_cast<double>(both[0]) - static_cast<double>(both[1]));
  }
  return least;
}

class PjrtDecode : public OnPlugins {
protected:
  // Returns how many requests are excused.
  static int compare(const Json& values, Decoder& device) {
    Json own = values;
    own["loop"] = "host";
    const auto near = model_on(cpu::make_engine(Options(graph::engine_schema())));
    const auto host = decode::make_decoder(near, own);
    for (const decode::TestRequest& request : kRequests) add(*host, request);
    host->run();
    int excused = 0;
    for (int64_t slot = 0; slot < 2; ++slot) {
      const std::vector<Json> want = steps_of(*host, slot), got = steps_of(device, slot);
      size_t same = 0;
      while (same < std::min(want.size(), got.size()) && want[same]["ids"] == got[same]["ids"])
        ++same;
      if (same == want.size() && same == got.size()) continue;
      const auto alone = decode::make_decoder(near, own); // up to the step that differs
      add(*alone, kRequests[static_cast<size_t>(slot)]);
      for (size_t step = 1; step < same; ++step) alone->step(); // the first line is the canvas
      alone->predict();
      EXPECT_LT(least_margin(*alone, 0, values.value("threshold", 2.0)), kMargin)
          << values.dump() << " slot " << slot << " step " << same;
      ++excused;
    }
    return excused;
  }
};

TEST_P(PjrtDecode, TokensAreThoseOfTheCpuEngine) {
  const auto engine = engine_of(path());
  const auto model = model_on(engine);
  int excused = 0;
  const std::vector<Json> kinds = {
      blocks("spd", {{"threshold", 0.3}, {"mix_top_k", 2}}),
      blocks("spd",
             {{"threshold", 0.3}, {"mix_top_k", 2}, {"implementation", "fast"}, {"shift", 1}}),
      blocks("threshold", {{"threshold", 0.3}, {"attention", "block_causal"}, {"shift", 1}}),
      blocks("entropy_bound", {{"gamma", 1.5}, {"order", "margin"}}),
      blocks("factor", {{"factor", 1.6}}),
      blocks("bd3lm", {{"remasking", "random"}, {"temperature", 0.7}, {"top_k", 9}})};
  for (const Json& values : kinds) {
    const auto decoder = decode::make_decoder(model, values);
    ASSERT_EQ(decoder->describe().at("loop").at("runs_on"), "device") << values.dump();
    for (const decode::TestRequest& request : kRequests) add(*decoder, request);
    const int64_t waits = engine->i64("round_trips");
    int64_t blocks = 0;
    decoder->run([&](const Event& event) {
      blocks += event.kind() == EventKind::block;
      return dllm::Answer::go_on;
    });
    EXPECT_LE(engine->i64("round_trips") - waits, blocks) << values.dump();
    excused += compare(values, *decoder);
  }
  RecordProperty("excused", excused);
  EXPECT_LE(excused, 2) << "of " << 2 * kinds.size() << " requests";
}

TEST_P(PjrtDecode, WaitsOnceABlockAndCompilesThreePrograms) {
  const auto engine = engine_of(path());
  const auto model = model_on(engine);
  for (const char* implementation : {"kv_fast", "fast"}) {
    const auto decoder = decode::make_decoder(
        model, blocks("spd", {{"threshold", 0.3}, {"implementation", implementation}}));
    decode::add(*decoder, {{9, 2, 6, 5, 3, 5, 8, 9}, 7, 24});
    const int64_t waits = engine->i64("round_trips"), compiles = engine->i64("compiles");
    decoder->run();
    EXPECT_EQ(engine->i64("round_trips") - waits, 6);
    EXPECT_EQ(decoder->metric(-1, "round_trips"), 6);
    EXPECT_LE(engine->i64("compiles") - compiles, 3);
    const int64_t first = engine->i64("compiles");
    decode::add(*decoder, {{9, 2, 6, 5, 3, 5, 8, 1}, 8, 24});
    while (decoder->step() > 0) continue; // step by step: the same programs
    EXPECT_EQ(engine->i64("compiles"), first);
  }
}

// The loop of a solver, and the text of its steps, are one program that the host waits for once.
TEST_P(PjrtDecode, ArraysAreThoseOfTheCpuEngine) {
  const auto engine = engine_of(path());
  const auto far = decode::latent_model_on(engine);
  const auto near = decode::latent_model_on(cpu::make_engine(Options(graph::engine_schema())));
  const auto rule = std::make_shared<decode::LatentRule>();
  for (const char* solver : {"ddpm", "heun", "dpmpp_2m"}) { // a compiler takes its time for each
    const Json values = {{"solver", solver}, {"guidance", 0.5}, {"trace", true}};
    const auto device = decode::decoder_of(far, rule, values),
               host = decode::decoder_of(near, rule, values);
    for (const decode::TestRequest& request : kRequests) add(*device, request), add(*host, request);
    const int64_t waits = engine->i64("round_trips");
    device->run();
    host->run();
    EXPECT_EQ(engine->i64("round_trips") - waits, 1) << solver;
    for (int64_t slot = 0; slot < 2; ++slot) {
      const std::vector<float>&got = device->request(slot).array, &want = host->request(slot).array;
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << solver;
      EXPECT_EQ(device->request(slot).ids, host->request(slot).ids) << solver;
    }
  }
}

DLLM_ON_PLUGINS(PjrtDecode);

} // namespace
} // namespace dllm::pjrt
