// Rows of one pass whose windows are of unlike length: several programs, the same tokens, few
// padded positions.

#include "unit/decode/requests.h"

#include <gtest/gtest.h>

#include <numeric>

namespace dllm::decode {
namespace {

// Rows of a pass with windows of these lengths.
struct Rows {
  explicit Rows(const std::vector<int64_t>& windows) : slots(windows.size()), asks(windows.size()) {
    config.max_positions = 4096;
    for (size_t i = 0; i < windows.size(); ++i) {
      slots[i].ids.resize(static_cast<size_t>(windows[i]));
      asks[i].end = windows[i];
      rows.push_back({&slots[i], &asks[i]});
    }
  }
  std::vector<int64_t> sizes() const {
    std::vector<int64_t> made;
    for (const auto& group : window_groups(rows))
      made.push_back(static_cast<int64_t>(group.size()));
    return made;
  }
  int64_t positions(const std::vector<size_t>& group) const {
    std::vector<PassRow> own;
    for (const size_t i : group) own.push_back(rows[i]);
    return pass_shape(config, own, {}).positions();
  }

  std::vector<Request> slots;
  std::vector<PassRequest> asks;
  std::vector<PassRow> rows;
  model::ModelConfig config;
};

std::vector<int64_t> windows(int64_t count, int64_t length, std::vector<int64_t> more = {}) {
  more.insert(more.begin(), static_cast<size_t>(count), length);
  return more;
}

TEST(WindowGroups, APrefillDoesNotPadSteps) {
  const Rows batch(windows(31, 32, {2000}));
  const auto groups = window_groups(batch.rows);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].size(), 31u);
  EXPECT_EQ(groups[1], std::vector<size_t>{31});
  std::vector<size_t> all(32);
  std::iota(all.begin(), all.end(), size_t{0});
  EXPECT_EQ(batch.positions(all), 32 * 2048);
  EXPECT_EQ(batch.positions(groups[0]) + batch.positions(groups[1]), 32 * 32 + 2048);
}

TEST(WindowGroups, AnOrdinaryBatchIsOneProgram) {
  EXPECT_EQ(Rows({}).sizes(), std::vector<int64_t>{});
  EXPECT_EQ(Rows({7}).sizes(), std::vector<int64_t>{1});
  EXPECT_EQ(Rows({12, 17, 21}).sizes(), std::vector<int64_t>{3});
  EXPECT_EQ(Rows(windows(31, 32)).sizes(), std::vector<int64_t>{31});
  EXPECT_EQ(Rows(windows(16, 96, windows(16, 128))).sizes(), std::vector<int64_t>{32})
      << "a quarter of padding";
}

TEST(WindowGroups, HasAsManyProgramsAsPay) {
  EXPECT_EQ(Rows(windows(20, 32, windows(6, 500, {4000, 4090}))).sizes(),
            (std::vector<int64_t>{20, 6, 2}));
  // The rows of a group keep their order.
  EXPECT_EQ(window_groups(Rows({1000, 30, 900, 20}).rows),
            (std::vector<std::vector<size_t>>{{1, 3}, {0, 2}}));
}

TEST(WindowGroups, FewRowsAreNotPaddedToTheBatchWhereThatIsMuch) {
  const Rows one({2000}), block({32}), two({200, 200});
  EXPECT_EQ(pass_shape(one.config, one.rows, {}, 32).rows, 1);
  EXPECT_EQ(pass_shape(block.config, block.rows, {}, 32).rows, 32);
  EXPECT_EQ(pass_shape(two.config, two.rows, {}, 32).rows, 8);
}

TEST(Rounding, SizesStayExactWherePaddingCostsMoreThanAProgram) {
  const Rounding fast{10, 40};
  const auto shape_of = [&](const Rows& batch, const Rounding& rounding) {
    const PassShape shape = pass_shape(batch.config, batch.rows, {}, 0, rounding);
    return std::pair(shape.rows, shape.window);
  };
  const Rows hundred({100}), sixty({60}), five(windows(5, 32));
  EXPECT_EQ(shape_of(hundred, fast), std::pair(int64_t{1}, int64_t{100}));
  EXPECT_EQ(shape_of(hundred, {}), std::pair(int64_t{1}, int64_t{128}));
  EXPECT_EQ(shape_of(sixty, fast), std::pair(int64_t{1}, int64_t{64})) << "4 of padding";
  EXPECT_EQ(shape_of(five, fast), std::pair(int64_t{5}, int64_t{32}));
  EXPECT_EQ(shape_of(five, {}), std::pair(int64_t{6}, int64_t{32}));
}

TEST(Rounding, GroupsArePickedByWhatALaunchCosts) {
  const Rows batch(windows(16, 96, windows(16, 128)));
  EXPECT_EQ(window_groups(batch.rows, Rounding{10, 40}).size(), 2u);
  EXPECT_EQ(window_groups(batch.rows, Rounding{10, 600}).size(), 1u);
}

TEST(Rounding, FollowsTheEngine) {
  const auto small = tiny_model();
  EXPECT_GT(rounding_of(*small).compile, 1000)
      << "a position of a tiny model costs next to nothing";
  Json config = tiny_config();
  config["intermediate_size"] = 40'000;
  EXPECT_LT(rounding_of(*tiny_model(1, config)).compile, 20);
}

bool same_bits(const Prediction& a, const Prediction& b) {
  return a.token == b.token && a.probability == b.probability && a.argmax == b.argmax &&
         a.max_probability == b.max_probability && a.entropy == b.entropy &&
         a.top_ids == b.top_ids && a.top_probs == b.top_probs;
}

// Three requests behind what they keep, in programs of rungs and of exact sizes.
TEST(Rounding, ChangesNoBit) {
  const auto model = tiny_model(2);
  const Weights weights = weights_of(*model);
  const std::vector<int64_t> lengths = {37, 50, 41};
  std::vector<Request> slots(lengths.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i].span = {8, 0, false};
    for (int64_t p = 0; p < lengths[i]; ++p)
      slots[i].ids.push_back(static_cast<int32_t>((p * 7 + static_cast<int64_t>(i)) % kMask));
    slots[i].states.assign(slots[i].ids.size(), State::fixed);
  }
  const auto predict = [&](const Rounding& rounding, int64_t* computed) {
    DecodeState state(model);
    PassProgram program(model, rounding);
    std::vector<PassRequest> asks(slots.size());
    std::vector<PassRow> rows;
    for (size_t i = 0; i < slots.size(); ++i) {
      asks[i].cached = true;
      rows.push_back({&slots[i], &asks[i], state.acquire(lengths[i], {}, slots[i].span)});
    }
    std::vector<std::vector<Prediction>> all;
    for (const int64_t begin : {0, 16, 24}) {
      for (size_t i = 0; i < slots.size(); ++i) {
        asks[i].begin = begin;
        asks[i].end = begin == 24 ? lengths[i] : begin + 16;
        asks[i].positions = {asks[i].end - 3, asks[i].end - 1};
      }
      for (RowAnswer& answer : program.run(rows, {}, state, weights, 6, nullptr))
        all.push_back(std::move(answer.predictions));
    }
    *computed = program.computed();
    return all;
  };
  int64_t in_rungs = 0, exact = 0;
  const auto a = predict({}, &in_rungs), b = predict({0, 32}, &exact);
  EXPECT_LT(exact, in_rungs);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    for (size_t j = 0; j < a[i].size(); ++j)
      EXPECT_TRUE(same_bits(a[i][j], b[i][j])) << i << " " << j;
  }
}

struct Case {
  std::string name;
  Json options;
  double most; // computed positions over those of all requests alone
};

class UnlikeWindows : public ::testing::TestWithParam<Case> {
protected:
  static std::shared_ptr<model::Model> model() {
    Json config = tiny_config();
    config["max_position_embeddings"] = 512;
    return tiny_model(2, config);
  }
  static std::vector<TestRequest> requests() {
    std::vector<TestRequest> all;
    for (int32_t i = 0; i < 11; ++i) all.push_back({{i, 2, 7}, i + 1, 16});
    std::vector<int32_t> document;
    for (int32_t i = 0; i < 300; ++i) document.push_back(i * 7 % 29);
    all.insert(all.begin() + 4, {document, 5, 8});
    return all;
  }
};

TEST_P(UnlikeWindows, GiveTheTokensOfSingleRequests) {
  const auto model = this->model();
  const std::vector<TestRequest> all = requests();
  const auto batch = make_decoder(model, GetParam().options);
  for (const TestRequest& request : all) add(*batch, request);
  batch->run();
  double computed = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto alone = make_decoder(model, GetParam().options);
    add(*alone, all[i]);
    alone->run();
    EXPECT_EQ(answer_of(*alone), answer_of(*batch, static_cast<int64_t>(i))) << "request " << i;
    computed += alone->metric(-1, "computed");
  }
  EXPECT_LE(batch->metric(-1, "computed"), GetParam().most * computed);
  EXPECT_GT(batch->metric(-1, "computed"), 0.5 * computed);
}

TEST_P(UnlikeWindows, ALateRequestDoesNotPadTheOthers) {
  const auto model = this->model();
  const std::vector<TestRequest> all = requests();
  const auto batch = make_decoder(model, GetParam().options);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i != 4) add(*batch, all[i]);
  }
  batch->step();
  const int64_t late = add(*batch, all[4]);
  batch->run();
  const auto alone = make_decoder(model, GetParam().options);
  add(*alone, all[4]);
  alone->run();
  EXPECT_EQ(answer_of(*alone), answer_of(*batch, late));
}

INSTANTIATE_TEST_SUITE_P(
    Decode, UnlikeWindows,
    ::testing::Values(
        Case{"exact",
             {{"attention", "block_causal"},
              {"block_length", 8},
              {"steps", 4},
              {"temperature", 0.8}},
             1.5},
        Case{"none", {{"steps", 4}, {"temperature", 0.8}}, 1.5},
        Case{"guided", {{"steps", 3}, {"guidance", 1.5}}, 1.5},
        Case{"spd", {{"policy", "spd"}, {"block_length", 8}}, 1.5},
        Case{"loop", {{"steps", 4}, {"loop", "device"}}, 1.5},
        Case{"loop_exact",
             {{"attention", "block_causal"}, {"block_length", 8}, {"steps", 4}, {"loop", "device"}},
             2.5}),
    [](const auto& info) { return info.param.name; });

} // namespace
} // namespace dllm::decode
