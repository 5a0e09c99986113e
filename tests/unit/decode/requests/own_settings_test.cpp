// Requests of one decoder with policies, steps, blocks and bans of their own: each gets the tokens
// that a decoder of these settings gives it alone.

#include "base/error.h"
#include "decode/method/setup.h"
#include "unit/decode/passes/far_engine.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

using test::expect_error;

const std::vector<int32_t> kOwnPrompt = {3, 1, 4};

Options decoding(const Json& values) {
  Options options(decoder_schema(values.value("policy", std::string())));
  options.set_json(values);
  return options;
}

OwnSettings own(const Json& values) {
  return {nullptr, decoding(values)};
}

int64_t add_own(Decoder& decoder, const OwnSettings& settings, int64_t seed = 7) {
  return decoder.add(kOwnPrompt, {}, slot_options({{"seed", seed}}), settings);
}

// The tokens of a request alone, in a decoder of these settings.
Answer alone(const std::shared_ptr<model::Model>& model, const Json& values) {
  const auto decoder = make_decoder(model, values);
  add_own(*decoder, {});
  decoder->run();
  return answer_of(*decoder);
}

Json settings_of(Json values, const Json& more) {
  values.update(more);
  return values;
}

TEST(OwnSettings, WhatARequestMaySetIsAKeyOfASlot) {
  const Options given = decoding({{"policy", "low_confidence"}, {"suppress", {"5"}}});
  const Schema& slot = request_schema();
  std::vector<std::string> keys;
  for (const auto& [option, how] : request_settings()) {
    keys.push_back(option.key);
    EXPECT_EQ(slot.find(option.key).group, "decoder") << option.key;
    Options own(slot);
    EXPECT_EQ(request_options(given, own).to_json(), given.to_json()) << option.key;
    const bool is_list = option.type == OptionType::list;
    const Json one = option.choices.empty() ? Json(3) : Json(option.choices.back());
    own.set_json({{option.key, is_list ? Json{"1"} : one}});
    Json wanted = given.to_json();
    wanted[option.key] = is_list ? Json::array() : one;
    if (how == PerRequest::adds) wanted[option.key] = given.to_json()[option.key];
    if (is_list) wanted[option.key].push_back(own.to_json()[option.key][0]);
    EXPECT_EQ(request_options(given, own).to_json(), wanted) << option.key;
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"steps", "block_length", "solver", "suppress",
                                            "logit_bias", "top_logprobs", "adapters"}));
}

TEST(OwnSettings, StepsBlocksAndBansAreThoseOfTheRequest) {
  const auto model = tiny_model();
  const Json base = {
      {"policy", "low_confidence"}, {"steps", 8}, {"gen_length", 12}, {"temperature", 0.8}};
  const std::vector<Json> all = {
      base, settings_of(base, {{"steps", 3}}), settings_of(base, {{"block_length", 4}}),
      settings_of(base, {{"suppress", {"1", "2", "3", "4", "5", "6", "7", "8", "9"}}}),
      settings_of(base, {{"temperature", 0.0}, {"steps", 12}, {"gen_length", 7}})};
  const auto decoder = make_decoder(model, base);
  for (const Json& values : all) add_own(*decoder, own(values));
  decoder->run();
  std::vector<Answer> answers;
  for (size_t i = 0; i < all.size(); ++i) {
    answers.push_back(answer_of(*decoder, static_cast<int64_t>(i)));
    EXPECT_EQ(answers.back(), alone(model, all[i])) << all[i].dump();
    if (i > 0) {
      EXPECT_NE(answers[i].ids, answers[0].ids) << "the settings made no difference";
    }
  }
  EXPECT_EQ(decoder->metric(1, "steps"), 3);
  for (size_t i = kOwnPrompt.size(); i < answers[3].ids.size(); ++i)
    EXPECT_TRUE(answers[3].ids[i] == 0 || answers[3].ids[i] > 9) << "position " << i;
}

// The same by the options of a request.
TEST(OwnSettings, StepsBlocksAndBansAreOptionsOfARequest) {
  const auto model = tiny_model();
  const Json base = {{"policy", "low_confidence"}, {"steps", 8},        {"gen_length", 12},
                     {"temperature", 0.8},         {"suppress", {"1"}}, {"block_length", 6}};
  const auto decoder = make_decoder(model, base);
  const std::vector<Json> requests = {
      {{"steps", 3}}, {{"block_length", 4}}, {{"block_length", 0}}, {{"suppress", {"2", "3"}}}};
  for (const Json& request : requests)
    decoder->add(kOwnPrompt, {}, slot_options(settings_of({{"seed", 7}}, request)));
  decoder->run();
  for (size_t i = 0; i < requests.size(); ++i) {
    Json values = settings_of(base, requests[i]);
    if (requests[i].contains("suppress")) values["suppress"] = {"1", "2", "3"};
    EXPECT_EQ(answer_of(*decoder, static_cast<int64_t>(i)), alone(model, values));
    EXPECT_NE(answer_of(*decoder, static_cast<int64_t>(i)), alone(model, base));
  }
}

// A key that is set to its default is not a key that is left open: the model has a length too.
TEST(OwnSettings, ABlockLengthThatIsSetIsNotTheModels) {
  Json config = tiny_config();
  config["dllm"] = {{"attention", "block_causal"}, {"block_length", 4}};
  const auto model = tiny_model(1, config);
  const Json base = {{"policy", "spd"}, {"gen_length", 12}},
             whole = settings_of(base, {{"block_length", 32}});
  const auto decoder = make_decoder(model, base);
  decoder->add(kOwnPrompt, {}, slot_options({{"seed", 7}, {"block_length", 32}}));
  add_own(*decoder, {});
  decoder->run();
  EXPECT_EQ(answer_of(*decoder, 0), alone(model, whole));
  EXPECT_EQ(answer_of(*decoder, 1), alone(model, base));
  EXPECT_NE(answer_of(*decoder, 0), answer_of(*decoder, 1));
}

TEST(OwnSettings, PoliciesOfAllKindsShareADecoder) {
  const auto model = tiny_model();
  std::vector<Json> all;
  for (const std::string& policy : policy_names()) {
    if (policy == "editflow" || policy == "diffusion_gemma") continue; // other models
    if (policy == "cola") continue; // its networks have the names of those of policy latent
    add_parts(*model, policy);
    all.push_back({{"policy", policy},
                   {"steps", 6},
                   {"block_length", 4},
                   {"gen_length", 12},
                   {"temperature", 0.9},
                   {"top_k", 20},
                   {"suppress_mask", true}});
  }
  const auto decoder = make_decoder(model, {{"gen_length", 12}});
  for (const Json& values : all) add_own(*decoder, own(values));
  decoder->run();
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(answer_of(*decoder, static_cast<int64_t>(i)), alone(model, all[i])) << all[i].dump();
}

// K and V that one way of decoding left are not those of another.
TEST(OwnSettings, CachesAreKeptApart) {
  const auto model = tiny_model();
  const Json spd = {{"policy", "spd"}, {"block_length", 4}, {"gen_length", 12}};
  const Json bf16 = settings_of(spd, {{"embeddings", "bf16"}});
  const auto decoder = make_decoder(model, spd);
  for (const Json& values : {spd, bf16, spd, bf16}) {
    decoder->add(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {}, slot_options(), own(values));
    decoder->run();
    const auto fresh = make_decoder(model, values);
    fresh->add(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {}, slot_options());
    fresh->run();
    EXPECT_EQ(answer_of(*decoder), answer_of(*fresh)) << values.dump();
    decoder->remove(0);
  }
}

// Requests that compute the same share their passes, whatever their plans are.
TEST(OwnSettings, UnlikePlansShareAPass) {
  const auto model = tiny_model();
  const Json base = {{"policy", "low_confidence"}, {"steps", 6}, {"gen_length", 12}};
  const auto decoder = make_decoder(model, base);
  add_own(*decoder, {});
  add_own(*decoder, own(settings_of(base, {{"steps", 3}})));
  decoder->step();
  EXPECT_EQ(decoder->metric(-1, "launches"), 1); // of two requests together
  const auto apart = make_decoder(model, base);
  add_own(*apart, {});
  add_own(*apart, own(settings_of(base, {{"suppress", {"5"}}})));
  apart->step();
  EXPECT_EQ(apart->metric(-1, "launches"), 2);
}

TEST(OwnSettings, LoopsOfUnlikePoliciesRunSideBySide) {
  const auto model = tiny_model(std::make_shared<FarEngine>());
  const Json planned = {
      {"policy", "low_confidence"}, {"steps", 6}, {"block_length", 4}, {"gen_length", 12}};
  const Json soft = {{"policy", "spd"}, {"block_length", 4}, {"gen_length", 12}};
  const auto decoder = make_decoder(model, planned);
  add_own(*decoder, {});
  add_own(*decoder, own(soft));
  decoder->run();
  EXPECT_EQ(answer_of(*decoder, 0), alone(model, planned));
  EXPECT_EQ(answer_of(*decoder, 1), alone(model, soft));
  EXPECT_LT(decoder->metric(1, "launches"), decoder->metric(1, "steps"));
}

TEST(OwnSettings, WrongOnesLeaveTheDecoderAsItWas) {
  const auto decoder = make_decoder(tiny_model(), {{"gen_length", 8}});
  const std::string before = decoder->describe().dump();
  expect_error(Code::invalid_argument, "\"31\"", [&] {
    add_own(*decoder, own({{"policy", "low_confidence"}, {"suppress", {"31"}}}));
  });
  EXPECT_EQ(decoder->describe().dump(), before);
}

} // namespace
} // namespace dllm::decode
