// Requests that cannot be: what the error says, and that nothing changed.

#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

using test::error_of;
using test::expect_error;

TEST(DecoderErrors, NoMaskTokenNamesTheChoices) {
  Json config = tiny_config();
  config.erase("mask_token_id");
  const auto model = tiny_model(1, config);
  const Error error = error_of([&] { make_decoder(model); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_NE(error.text().find("no mask token"), std::string::npos);
  EXPECT_NE(error.hint().find("mask_token"), std::string::npos);
  EXPECT_NE(error.hint().find("config.json"), std::string::npos);
  EXPECT_NE(error.hint().find("train"), std::string::npos);
}

TEST(DecoderErrors, BadRequestsNameTokenAndPlaceAndKeepTheSlots) {
  const auto decoder = make_decoder(tiny_model(), {{"gen_length", 8}, {"slots", 2}});
  decoder->start(std::vector<int32_t>{1, 2}, 5);
  const std::string before = decoder->describe().dump();
  expect_error(Code::invalid_argument, "token 31 at position 1", [&] {
    decoder->start(std::vector<int32_t>{1, 31}, 0);
  });
  expect_error(Code::invalid_argument, "token -1 at position 0",
               [&] { decoder->start(std::vector<int32_t>{-1}, 0); });
  expect_error(Code::out_of_range, "65 positions, the model allows at most 64",
               [&] { decoder->start(std::vector<int32_t>(57, 1), 0); });
  expect_error(Code::invalid_argument, "fixed has 1 entries, the canvas has 2", [&] {
    decoder->add(std::vector<int32_t>{1, 2}, std::vector<uint8_t>{1}, slot_options());
  });
  expect_error(Code::invalid_argument, "empty", [&] {
    decoder->add({}, {}, slot_options({{"gen_length", 0}}));
  });
  expect_error(Code::invalid_argument, "\"x\"", [&] {
    decoder->add({}, {}, slot_options({{"stop", {"x"}}}));
  });
  expect_error(Code::invalid_argument, "\"31\"", [&] {
    decoder->add({}, {}, slot_options({{"stop", {"31"}}}));
  });
  EXPECT_EQ(decoder->describe().dump(), before);
  decoder->add({}, {}, slot_options());
  expect_error(Code::resource_exhausted, "all 2 slots",
               [&] { decoder->add({}, {}, slot_options()); });
}

// One slot draws the mask token for all it has open, and the policy has nothing to decide: that
// slot ends with its canvas as it was, and the other is decoded as if it were alone.
TEST(DecoderErrors, ASlotThatIsStuckEndsAloneAndIsNamed) {
  const auto model = tiny_model();
  std::vector<std::string> stuck;
  for (const std::string& name : policy_names()) {
    for (int seed = 0; seed < 100; ++seed) {
      std::unique_ptr<Decoder> decoder, alone;
      const Json values = {
          {"policy", name}, {"suppress_mask", false}, {"gen_length", 4}, {"steps", 4}};
      try {
        decoder = make_decoder(model, values), alone = make_decoder(model, values);
        for (Decoder* held : {decoder.get(), alone.get()})
          held->add(std::vector<int32_t>{1, 2}, {}, slot_options());
        decoder->add(std::vector<int32_t>{3, 4}, {},
                     slot_options({{"gen_length", 1}, {"temperature", 5.0}, {"seed", seed}}));
      } catch (const Error&) {
        break; // not for this model
      }
      const Answer before = answer_of(*decoder, 1);
      try {
        decoder->step();
      } catch (const Error&) { // the other one is done already
        EXPECT_EQ(decoder->metric(0, "done"), 1) << name;
      }
      if (decoder->request(1).finish != Finish::failed) continue;
      try {
        alone->run();
      } catch (const Error&) { // it may be stuck later, in both
        EXPECT_EQ(alone->request(0).finish, Finish::failed) << name;
      }
      EXPECT_THROW(decoder->run(), Error);
      const Json error = decoder->describe().at("slots").at(1).at("error");
      EXPECT_EQ(error.at("text").get<std::string>().find("all 1 open positions"), 0u) << name;
      EXPECT_EQ(answer_of(*decoder, 0), answer_of(*alone)) << name;
      EXPECT_EQ(answer_of(*decoder, 1), before) << name;
      stuck.push_back(name);
      break;
    }
  }
  EXPECT_GE(stuck.size(), 3u);
}

TEST(DecoderErrors, UnknownNamesSuggestTheNearest) {
  const auto decoder = make_decoder(tiny_model());
  decoder->start({}, 0);
  expect_error(Code::not_found, "no slot 3", [&] { decoder->request(3); });
  expect_error(Code::not_found, "no slot 3", [&] { decoder->remove(3); });
  expect_error(Code::not_found, "no slot -2", [&] { decoder->metric(-2, "nfe"); });
  const Error of_slot = error_of([&] { decoder->metric(0, "stepps"); });
  EXPECT_EQ(of_slot.text(), "there is no metric named \"stepps\" of a slot");
  EXPECT_EQ(of_slot.hint(), "did you mean steps?");
  EXPECT_EQ(error_of([&] { decoder->metric(-1, "slot"); }).hint(), "did you mean slots?");
  const Error policy = error_of([] { decoder_schema("low_confidance"); });
  EXPECT_EQ(policy.code(), Code::not_found);
  EXPECT_NE(policy.hint().find("low_confidence"), std::string::npos);
}

TEST(DecoderErrors, BadOptions) {
  const auto model = tiny_model();
  expect_error(Code::invalid_argument, "\"31\"", [&] {
    make_decoder(model, {{"suppress", {"31"}}});
  });
  expect_error(Code::invalid_argument, "block length", [&] {
    make_decoder(model, {{"attention", "block_causal"}});
  });
  EXPECT_EQ(error_of([&] {
              make_decoder(model, {{"schedule", "linaer"}});
            }).code(),
            Code::not_found);
}

TEST(DecoderErrors, StepNeedsARequestAndTraceAnOption) {
  const auto decoder = make_decoder(tiny_model()); // off by default
  expect_error(Code::failed_precondition, "no request", [&] { decoder->step(); });
  decoder->start({}, 0);
  expect_error(Code::failed_precondition, "no trace", [&] { decoder->trace(0); });
}

TEST(DecoderErrors, AFailingCallbackIsReportedAsSuch) {
  const auto decoder = make_decoder(tiny_model());
  decoder->start({}, 0);
  expect_error(Code::callback_failed, "",
               [&] { decoder->run([](const Event&) { return dllm::Answer::fail; }); });
}

} // namespace
} // namespace dllm::decode
