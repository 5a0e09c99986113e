// The plan of a denoising step is about the very program that a decoder runs.

#include "decode/decoder/decoder.h"
#include "decode/method/setup.h"

#include "../requests.h"
#include "unit/test_files.h"
#include "unit/watching_engine.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

Options plan_options(const Json& values) {
  Options options(model::plan_schema());
  options.set_json(values);
  return options;
}

struct Watched {
  std::shared_ptr<test::WatchingEngine> engine =
      std::make_shared<test::WatchingEngine>(tiny_model()->engine_ref());
  std::shared_ptr<model::Model> model;

  explicit Watched(const Json& config = tiny_config()) : model(tiny_model(engine, config)) {}
  std::string planned(const Json& values) const {
    return decoding_job(engine, model->config(), plan_options(values)).graph->dump();
  }
  // The program of the last pass of a request of 24 positions, `open` of them open.
  std::string last_pass(const Json& options, int64_t open) const {
    const auto decoder = make_decoder(model, options);
    add(*decoder, {std::vector<int32_t>(static_cast<size_t>(24 - open), 3), 1, open});
    decoder->run();
    return engine->compiled.back();
  }
};

TEST(DecodePlan, IsTheProgramOfTheWholeCanvas) {
  const Watched watched;
  EXPECT_EQ(watched.planned({{"what", "decode"}, {"length", 24}}),
            watched.last_pass({{"steps", 1}, {"cache", "none"}}, 24));
}

TEST(DecodePlan, IsTheProgramOfAWindowOverACache) {
  Json config = tiny_config();
  config["dllm"] = {{"attention", "block_causal"}, {"block_length", 8}};
  const Watched watched(config);
  const Json plan = {{"what", "decode"}, {"length", 24}, {"window", 8}};
  EXPECT_EQ(watched.planned(plan), watched.last_pass({{"steps", 2}, {"block_length", 8}}, 8));
  Json soft = plan;
  soft["policy"] = "spd";
  EXPECT_NE(watched.planned(soft).find("soft_ids"), std::string::npos);
}

TEST(DecodePlan, IsTheLoopWhereADecoderTakesOne) {
  Json config = tiny_config();
  config["dllm"] = {{"attention", "block_causal"}, {"block_length", 8}};
  const Watched watched(config);
  const Json plan = {{"what", "decode"}, {"length", 24}, {"window", 8}, {"loop", "device"}};
  EXPECT_EQ(watched.planned(plan),
            watched.last_pass({{"steps", 8}, {"block_length", 8}, {"loop", "device"}}, 8));
  Json without = plan;
  without["policy"] = "dream";
  test::expect_error(Code::unimplemented, "dream", [&] { watched.planned(without); });
}

TEST(DecodePlan, CountsTheCache) {
  const Watched watched;
  const model::ModelConfig& config = watched.model->config();
  const int64_t uploads = watched.engine->uploads;
  const auto plan = [&](const Json& values) {
    const Options options = plan_options(values);
    return parse_json(
        model::plan_text(*watched.engine, decoding_job(watched.engine, config, options), options),
        "plan");
  };
  const Json window = {{"what", "decode"}, {"batch", 3}, {"length", 20}, {"window", 4}};
  // K and V of every layer, of four rows (the next power of two), of a whole tile of 64 keys.
  const int64_t cache = 2 * config.layers * 4 * 64 * config.kv_size() * 4;
  const Json made = plan(window);
  EXPECT_EQ(made["cache"], cache);
  EXPECT_GE(made["peak"].get<int64_t>(), cache + made["weights"].get<int64_t>());
  EXPECT_EQ(made["moments"], 0);
  EXPECT_EQ(plan({{"what", "decode"}, {"length", 20}})["cache"], 0);
  EXPECT_EQ(plan({{"what", "prefill"}, {"length", 20}})["cache"], cache / 4);
  Json narrow = window;
  narrow["dtype"] = "int8";
  EXPECT_LT(plan(narrow)["weights"].get<int64_t>(), made["weights"].get<int64_t>() / 2);
  EXPECT_EQ(watched.engine->uploads, uploads);
}

} // namespace
} // namespace dllm::decode
