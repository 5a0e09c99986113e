// Masks by trajectories: the choice of a row, the ramp, blocks, and the batches of objectives.

#include "noise/rows/trajectory_masks.h"

#include "base/error.h"
#include "tiny.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace dllm::noise {
namespace {

TrajectoryMasks masks_of(const Json& settings) {
  Options options(objective_schema("mdlm"));
  options.set_json(settings);
  return TrajectoryMasks(options);
}

// A row with a prompt of 2 tokens and an order for the other ones.
struct TestRow {
  explicit TestRow(std::vector<int32_t> response) : order({0, 0}) {
    order.insert(order.end(), response.begin(), response.end());
    counts.assign(order.size(), 1);
    counts[0] = counts[1] = 0;
    draws.assign(order.size(), 0.5f);
  }
  TrajectoryMasks::Row row(float block = 0) const { return {order, counts, draws, block}; }
  std::vector<int32_t> order;
  std::vector<uint8_t> counts;
  std::vector<float> draws;
};

std::string text_of(const TrajectoryChoice& chosen) {
  std::string text;
  for (const Masked masked : chosen.tokens)
    text += masked == Masked::no ? '.' : masked == Masked::yes ? 'M' : 'x';
  return text;
}

TEST(LinearRow, IsTheRuleOfCastlehill) {
  const std::pair<double, int64_t> wanted[] = {{1, 0},    {0.9, 3},  {0.5, 16},
                                               {0.3, 22}, {0.1, 28}, {0, 32}};
  for (const auto& [ratio, row] : wanted) EXPECT_EQ(linear_row(33, ratio), row) << ratio;
  EXPECT_EQ(linear_row(1, 0.5), 0);
}

// The nearest row by the true part, found by trying all rows.
TEST(NearestRow, HasTheNearestMaskedPart) {
  const std::vector<std::vector<int32_t>> orders = {{1, 1, 1, 1, 1, 1, 1, 2},
                                                    {1, 2, 3, 4, 5, 6, 7, 8},
                                                    {0, 0, 3, 3, 1, 9, 9, 9},
                                                    {5},
                                                    {},
                                                    {0, 0}};
  for (const std::vector<int32_t>& order : orders) {
    const std::vector<uint8_t> counts(order.size(), 1);
    const auto part = [&](int64_t row) {
      const auto hidden = std::ranges::count_if(order, [&](int32_t o) { return o > row; });
      return order.empty() ? 0.0 : static_cast<double>(hidden) / static_cast<double>(order.size());
    };
    for (double ratio = 0; ratio <= 1; ratio += 0.05) {
      double least = 2;
      for (int64_t row = 0; row < 10; ++row) least = std::min(least, std::abs(part(row) - ratio));
      const int64_t got = nearest_row(order, counts, ratio);
      EXPECT_NEAR(std::abs(part(got) - ratio), least, 1e-12) << ratio;
    }
  }
}

TEST(TrajectoryMasks, RampsAndJitters) {
  const TrajectoryMasks masks = masks_of(
      {{"trajectory_min_ratio", 0.1}, {"trajectory_max_ratio", 0.5}, {"trajectory_ramp", 100}});
  EXPECT_NEAR(masks.current_ratio(0), 0.1, 1e-12);
  EXPECT_NEAR(masks.current_ratio(50), 0.3, 1e-12); // spec 17.5
  EXPECT_NEAR(masks.current_ratio(100), 0.5, 1e-12);
  EXPECT_NEAR(masks.current_ratio(1000), 0.5, 1e-12);
  EXPECT_NEAR(masks.jittered(50, 0.5), 0.4, 1e-12);
  EXPECT_NEAR(masks.jittered(100, 0.9), 0.5, 1e-12);
  EXPECT_EQ(TrajectoryMasks::jitter(3, 7), TrajectoryMasks::jitter(3, 7));
  EXPECT_NE(TrajectoryMasks::jitter(3, 7), TrajectoryMasks::jitter(3, 8));
  EXPECT_NE(TrajectoryMasks::jitter(3, 7), TrajectoryMasks::jitter(4, 7));
  EXPECT_EQ(masks_of({{"trajectory_max_ratio", 0.7}}).current_ratio(0), 0.7) << "no ramp";
}

TEST(TrajectoryMasks, BlocksShareTheRamp) {
  const TrajectoryMasks masks =
      masks_of({{"trajectory_blocks", {4, 8, 16}}, {"trajectory_ramp", 9}});
  for (const auto& [step, length] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {2, 4}, {3, 8}, {5, 8}, {6, 16}, {90, 16}})
    EXPECT_EQ(masks.block_length(step), length) << step;
  EXPECT_EQ(masks_of(Json::object()).block_length(0), 0);
  for (const char* bad : {"0", "x", "-1", ""})
    EXPECT_THROW(masks_of({{"trajectory_blocks", {bad}}}), Error) << bad;
}

TEST(TrajectoryMasks, MasksWhatTheNearestRowHides) {
  // Half of the tokens are shown in row 1, so the linear rule misses the ratio.
  const TestRow row({1, 1, 1, 1, 2, 3, 4, 5});
  const TrajectoryChoice near = masks_of(Json::object()).choose(row.row(), 0, 0.5);
  EXPECT_EQ(text_of(near), "......MMMM");
  EXPECT_EQ(near.ratio, 0.5);
  EXPECT_EQ(near.counted, 8);
  const TrajectoryChoice linear = masks_of({{"compat", "open-dllm"}}).choose(row.row(), 0, 0.5);
  EXPECT_EQ(text_of(linear), ".......MMM") << "row 2 of 6";
  EXPECT_EQ(linear.ratio, 0.375);
}

TEST(TrajectoryMasks, NeverMasksThePrompt) {
  TestRow row({3, 2, 1});
  row.order[0] = row.order[1] = 9; // of a prompt that the data gives and the trajectory hides
  EXPECT_EQ(text_of(masks_of(Json::object()).choose(row.row(), 0, 1.0)), "..MMM");
}

TEST(TrajectoryMasks, DrawsForARowWithoutATrajectory) {
  TestRow row({0, 0, 0, 0});
  std::ranges::fill(row.order, -1);
  row.draws = {0, 0, 0.39f, 0.4f, 0.41f, 0.0f};
  EXPECT_EQ(text_of(masks_of(Json::object()).choose(row.row(), 0, 0.4)), "..MM.M")
      << "below 0.999 * 0.4 + 0.001 = 0.4006";
}

TEST(TrajectoryMasks, MasksAllAfterTheBlock) {
  const TestRow row({1, 2, 3, 4, 2, 3, 1, 4, 1});
  const TrajectoryMasks masks = masks_of({{"trajectory_blocks", {4}}});
  const TrajectoryChoice first = masks.choose(row.row(0.0f), 0, 0.5);
  EXPECT_EQ(text_of(first), "....MMxxxxx");
  EXPECT_EQ(first.counted, 4);
  EXPECT_EQ(first.ratio, 0.5);
  EXPECT_EQ(text_of(masks.choose(row.row(0.4f), 0, 0.5)), ".......M.Mx");
  const TrajectoryChoice last = masks.choose(row.row(0.99f), 0, 1.0);
  EXPECT_EQ(text_of(last), "..........M");
  EXPECT_EQ(last.ratio, 1.0);
}

TEST(TimeOfRatio, InvertsTheSchedule) {
  for (const char* name : {"linear", "cosine"}) {
    const ScheduleRef schedule = make_schedule(name);
    for (double ratio = 0; ratio < 1; ratio += 0.07)
      EXPECT_NEAR(schedule->mask_prob(time_of_ratio(*schedule, ratio)), ratio, 1e-9) << name;
  }
  EXPECT_EQ(time_of_ratio(*make_schedule("linear"), 1.0), 1.0);
}

// ---- objectives ----

PrepareContext context_of() {
  PrepareContext context;
  context.mask_id = kTinyMask;
  context.vocab = 23;
  return context;
}

// Rows [first, first + batch) of an update of `total` rows of 12 tokens: 3 of the prompt, then an
// order of its own for each row. Row 2 has no trajectory.
Batch traced_rows(int64_t batch, int64_t first, int64_t total) {
  Batch made = tiny_rows(batch, 12, first, total);
  Tensor order(DType::i32, {batch, 12});
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < 12; ++i) {
      const int64_t row = first + b;
      order.mutable_as<int32_t>()[static_cast<size_t>(b * 12 + i)] =
          row == 2 ? -1
          : i < 3  ? 0
                   : static_cast<int32_t>(1 + (i * (2 * row + 1) + row) % 9);
    }
  }
  made.set("trajectory", order);
  made.set("prompt_length",
           Tensor::from(Shape{batch}, std::vector<int32_t>(static_cast<size_t>(batch), 3)));
  return made;
}

TEST(Objectives, AnyCutMasksTheSameTokens) {
  const Json plain{{"trajectory_ramp", 10}}, blocks{{"trajectory_blocks", {4, 2}}};
  for (const char* name : {"mdlm", "open_dllm", "llada_sft", "dream"}) {
    for (const Json& settings : {plain, blocks}) {
      const ObjectiveRef objective = tiny_objective(name, settings);
      const Batch all = objective->prepare(traced_rows(4, 0, 4), 5, 3, context_of());
      EXPECT_FALSE(all.has("trajectory"));
      for (int64_t first = 0; first < 4; ++first) {
        const Batch one = objective->prepare(traced_rows(1, first, 4), 5, 3, context_of());
        for (const char* array : {"ids", "targets"}) {
          const auto whole =
              all.at(array).as<int32_t>().subspan(static_cast<size_t>(first) * 12, 12);
          EXPECT_TRUE(std::ranges::equal(one.at(array).as<int32_t>(), whole)) << name << array;
        }
        EXPECT_EQ(one.at("mask_ratio").as<float>()[0],
                  all.at("mask_ratio").as<float>()[static_cast<size_t>(first)]);
      }
    }
  }
}

TEST(Objectives, TargetsAreTheTokensOfTheData) {
  const Batch raw = traced_rows(4, 0, 4);
  const Batch made = tiny_objective("mdlm")->prepare(raw, 1, 0, context_of());
  const auto clean = raw.at("ids").as<int32_t>(), ids = made.at("ids").as<int32_t>(),
             targets = made.at("targets").as<int32_t>();
  int64_t masked = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % 12 < 3) EXPECT_EQ(ids[i], clean[i]) << "a token of the prompt";
    EXPECT_EQ(targets[i], ids[i] == kTinyMask ? clean[i] : -1);
    masked += ids[i] == kTinyMask ? 1 : 0;
  }
  EXPECT_GT(masked, 0);
}

// Every set of masked tokens is one that the trajectory has, and the ratio is its part.
TEST(Objectives, HaveTheTrueRatio) {
  const Batch raw = traced_rows(2, 0, 2);
  const auto order = raw.at("trajectory").as<int32_t>();
  std::set<float> seen;
  for (int64_t step = 0; step < 30; ++step) {
    const Batch made =
        tiny_objective("mdlm", {{"trajectory_ramp", 30}})->prepare(raw, 8, step, context_of());
    for (size_t b = 0; b < 2; ++b) {
      int32_t largest = 0, least = 100; // of shown and of hidden tokens
      int64_t masked = 0;
      for (size_t i = b * 12 + 3; i < b * 12 + 12; ++i) {
        const bool hidden = made.at("ids").as<int32_t>()[i] == kTinyMask;
        masked += hidden ? 1 : 0;
        (hidden ? least : largest) =
            hidden ? std::min(least, order[i]) : std::max(largest, order[i]);
      }
      EXPECT_GT(least, largest);
      const float ratio = made.at("mask_ratio").as<float>()[b];
      EXPECT_FLOAT_EQ(ratio, static_cast<float>(masked) / 9.0f);
      EXPECT_FLOAT_EQ(made.at("t").as<float>()[b], ratio) << "the linear schedule";
      seen.insert(ratio);
    }
  }
  EXPECT_GT(seen.size(), 4u);
}

TEST(Objectives, HeldOutLossesDrawAsAlways) {
  PrepareContext context = context_of();
  context.held_out = true;
  Batch plain = traced_rows(4, 0, 4);
  const ObjectiveRef objective = tiny_objective("mdlm");
  const Batch traced = objective->prepare(plain, 1, 0, context);
  plain.remove("trajectory");
  const Batch drawn = objective->prepare(plain, 1, 0, context);
  EXPECT_TRUE(std::ranges::equal(traced.at("ids").as<int32_t>(), drawn.at("ids").as<int32_t>()));
  EXPECT_FALSE(traced.has("mask_ratio"));
}

TEST(Objectives, OthersRefuseTheArray) {
  for (const char* name : {"ar", "bd3lm", "uniform", "nano"}) {
    PrepareContext context = context_of();
    context.block_length = 4;
    try {
      tiny_objective(name)->prepare(traced_rows(2, 0, 2), 0, 0, context);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), std::string("objective ") + name + " does not read array trajectory");
    }
  }
  EXPECT_THROW(tiny_objective("mdlm", {{"trajectory_min_ratio", 0.9}}), Error);
}

} // namespace
} // namespace dllm::noise
