// A canvas that grows and shrinks: given tokens stay in their order, masks do not remain, the
// length is bounded.

#include "base/error.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace dllm::decode {
namespace {

std::shared_ptr<model::Model> edit_model(const std::string& type = "editflow-llama") {
  Json config = tiny_config();
  config["model_type"] = type;
  return tiny_model(1, config);
}

Json editing(const Json& more = Json::object()) {
  Json settings = {{"policy", "editflow"}, {"steps", 12}, {"temperature", 1.0}};
  settings.update(more);
  return settings;
}

TEST(EditFlow, GivenTokensStayAndTheLengthChanges) {
  const auto decoder = make_decoder(edit_model(), editing());
  for (int64_t seed = 0; seed < 8; ++seed) add(*decoder, {{3, 1, 4}, seed, 6});
  decoder->run();
  std::set<int64_t> lengths;
  for (int64_t slot = 0; slot < 8; ++slot) {
    const Request& done = decoder->request(slot);
    lengths.insert(done.length());
    ASSERT_GE(done.length(), 3);
    EXPECT_EQ(std::vector<int32_t>(done.ids.begin(), done.ids.begin() + 3),
              (std::vector<int32_t>{3, 1, 4}));
    EXPECT_EQ(std::ranges::count(done.ids, kMask), 0);
    EXPECT_EQ(done.states.size(), done.ids.size());
    EXPECT_EQ(done.open_count(0, done.length()), 0);
    EXPECT_EQ(done.steps, 12);
  }
  EXPECT_GT(lengths.size(), 1u);
}

// Behind the end of a text that is given nothing is inserted, in its hole there is.
TEST(EditFlow, HolesGrowBetweenGivenTokens) {
  const auto decoder = make_decoder(edit_model(), editing());
  const std::vector<int32_t> canvas = {3, 0, 5, 6};
  const std::vector<uint8_t> fixed = {1, 0, 1, 1};
  for (int64_t seed = 0; seed < 8; ++seed)
    decoder->add(canvas, fixed, slot_options({{"seed", seed}}));
  decoder->run();
  bool grown = false;
  for (int64_t slot = 0; slot < 8; ++slot) {
    const std::vector<int32_t>& ids = decoder->request(slot).ids;
    EXPECT_EQ(ids.front(), 3);
    EXPECT_EQ(std::vector<int32_t>(ids.end() - 2, ids.end()), (std::vector<int32_t>{5, 6}));
    grown = grown || ids.size() > 4;
  }
  EXPECT_TRUE(grown);
}

TEST(EditFlow, TheLengthIsBounded) {
  const auto decoder = make_decoder(edit_model(), editing({{"max_length", 10}, {"steps", 40}}));
  for (int64_t seed = 0; seed < 8; ++seed) add(*decoder, {{3, 1}, seed, 8});
  int64_t longest = 0;
  while (decoder->step() > 0) {
    for (int64_t slot = 0; slot < 8; ++slot)
      longest = std::max(longest, decoder->request(slot).length());
  }
  EXPECT_EQ(longest, 10);
}

// Steps behind the last time end when no rate is above one half, or after `finish_steps` of them.
TEST(EditFlow, StepsBehindTheLastTimeEnd) {
  const auto run = [](int64_t most) {
    const auto decoder =
        make_decoder(edit_model(), editing({{"finish_steps", most}, {"steps", 3}}));
    for (int64_t seed = 0; seed < 8; ++seed) add(*decoder, {{3, 1}, seed, 4});
    decoder->run();
    std::vector<int64_t> steps;
    for (int64_t slot = 0; slot < 8; ++slot) {
      const Request& done = decoder->request(slot);
      EXPECT_EQ(done.open_count(0, done.length()), 0);
      steps.push_back(done.steps);
    }
    return steps;
  };
  EXPECT_EQ(run(0), std::vector<int64_t>(8, 3));
  const auto steps = run(5);
  EXPECT_GT(std::ranges::min(steps), 3);
  EXPECT_LE(std::ranges::max(steps), 8);
}

TEST(EditFlow, MasksStayWhereTheyAreWanted) {
  const Json never = {{"keep_masks", true}, {"suppress_mask", false}, {"steps", 1}};
  const auto decoder = make_decoder(edit_model(), editing(never));
  for (int64_t seed = 0; seed < 8; ++seed) add(*decoder, {{3, 1}, seed, 8});
  decoder->run();
  int64_t masks = 0;
  for (int64_t slot = 0; slot < 8; ++slot)
    masks += std::ranges::count(decoder->request(slot).ids, kMask);
  EXPECT_GT(masks, 0);
}

TEST(EditFlow, AnEventShowsTheWholeCanvas) {
  const auto decoder = make_decoder(edit_model(), editing());
  add(*decoder, {{3, 1}, 5, 6});
  decoder->run([&](const Event& event) {
    if (event.kind() == EventKind::decode_step) {
      EXPECT_EQ(std::get<std::vector<int32_t>>(*event.find("ids")).size(),
                static_cast<size_t>(decoder->request(0).length()));
    }
    return dllm::Answer::go_on;
  });
}

TEST(EditFlow, AModelWithoutItsHeadsIsRefused) {
  const auto model = tiny_model();
  const Error error = test::error_of([&] { make_decoder(model, editing()); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_NE(error.hint().find("heads = edit"), std::string::npos);
}

} // namespace
} // namespace dllm::decode
