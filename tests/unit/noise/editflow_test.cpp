// Alignments, what is left to edit, the loss by its formula and its gradient.

#include "base/error.h"
#include "model/network/edit_heads.h"
#include "noise/loss/evaluate.h"
#include "noise/objectives/table.h"
#include "noise/rows/edit_alignment.h"
#include "tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::noise {
namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t B = kBlank;

std::shared_ptr<model::Model> edit_model() {
  Json config = model::config_to_json(tiny_model()->config());
  config["model_type"] = "editflow-qwen3";
  const auto engine = cpu::make_engine(Options(graph::engine_schema()));
  return model::new_model(engine, config, Options(model::model_schema()));
}

TEST(EditAlignment, PrefersPairsThenDeletions) {
  const auto expect = [](const Ids& from, const Ids& to, const Ids& z0, const Ids& z1) {
    const Alignment made = align(from, to);
    EXPECT_EQ(made.from, z0);
    EXPECT_EQ(made.to, z1);
  };
  expect({1, 9, 9, 9}, {1, 5, 6}, {1, 9, 9, 9}, {1, B, 5, 6});
  expect({1, 9}, {1, 5, 6, 7}, {1, B, B, 9}, {1, 5, 6, 7});
  expect({1}, {1, 5, 6}, {1, B, B}, {1, 5, 6});
  expect({1, 5, 6}, {1}, {1, 5, 6}, {1, B, B});
  expect({1, 2, 3, 4}, {1, 3, 4, 5}, {1, 2, 3, 4, B}, {1, B, 3, 4, 5});
  expect({}, {}, {}, {});
}

TEST(EditAlignment, NamesWhatIsLeft) {
  const auto edits = edits_between(Ids{1, B, 9, 7}, Ids{1, 5, 6, B});
  ASSERT_EQ(edits.size(), 3u);
  EXPECT_EQ(edits[0].kind, Edit::Kind::insert);
  EXPECT_EQ(edits[0].position, 0);
  EXPECT_EQ(edits[0].token, 5);
  EXPECT_EQ(edits[1].kind, Edit::Kind::substitute);
  EXPECT_EQ(edits[1].position, 1);
  EXPECT_EQ(edits[2].kind, Edit::Kind::remove);
  EXPECT_EQ(edits[2].position, 2);
}

// Of a gap the first token alone is named, for all that are left; what is on both sides of it are
// gaps of their own.
TEST(EditAlignment, NamesTheFirstOfAGap) {
  const auto expect = [](const Ids& now, InsertOrder order, const std::vector<Ids>& wanted) {
    std::vector<Ids> made;
    for (const Edit& edit : edits_between(now, Ids{1, 5, 6, 7, 8, 9}, order))
      made.push_back(
          {static_cast<int32_t>(edit.position), edit.token, static_cast<int32_t>(edit.count)});
    EXPECT_EQ(made, wanted);
  };
  expect({1, B, B, B, B, 9}, InsertOrder::left, {{0, 5, 4}});
  expect({1, 5, B, B, B, 9}, InsertOrder::left, {{1, 6, 3}});
  expect({1, B, B, B, B, 9}, InsertOrder::middle, {{0, 6, 4}});
  expect({1, B, 6, B, B, 9}, InsertOrder::middle, {{0, 5, 1}, {1, 7, 2}});
  expect({1, 5, B, 7, 8, B}, InsertOrder::any, {{1, 6, 1}, {3, 9, 1}});
}

// In every order as many columns are there at a time: a share of kappa in the mean. A column comes
// before those that it parts.
TEST(EditAlignment, OrdersKeepTheNumberOfTokens) {
  constexpr int kRounds = 4000, kColumns = 6;
  const Alignment gap = align(Ids{1}, Ids{1, 5, 6, 7, 8, 9});
  for (const InsertOrder order : {InsertOrder::any, InsertOrder::middle, InsertOrder::left}) {
    int64_t there = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float> times = mask_draws(1, kColumns, 0, 3, static_cast<int64_t>(round));
      order_inserts(gap, order, times);
      for (size_t column = 1; column < kColumns; ++column) there += times[column] < 0.3f ? 1 : 0;
      if (order == InsertOrder::left) {
        EXPECT_TRUE(std::ranges::is_sorted(times.begin() + 1, times.end()));
      } else if (order == InsertOrder::middle) {
        EXPECT_EQ(std::ranges::min_element(times.begin() + 1, times.end()) - times.begin(), 3);
      }
    }
    // The standard error of the share is 0.0032.
    EXPECT_NEAR(static_cast<double>(there) / (kRounds * (kColumns - 1)), 0.3, 0.013);
  }
}

// At noise level 1 the row is its start; at 0 it is the text, and nothing is left to do.
TEST(EditFlow, TheRowIsItsStartOrTheText) {
  const auto model = edit_model();
  const ObjectiveRef objective =
      tiny_objective("editflow", {{"start_length", 3}, {"time_epsilon", 0.0}});
  Batch raw = tiny_rows(2, 8);
  raw.set("t", Tensor::from(Shape{2}, std::vector<float>{1.0f, 0.0f}));
  const Batch made = objective->prepare(raw, 3, 1, prepare_context(*objective, model->config()));
  const auto ids = made.at("ids").as<int32_t>(), clean = raw.at("ids").as<int32_t>();
  EXPECT_EQ(Ids(ids.begin(), ids.begin() + 5), (Ids{clean[0], kTinyMask, kTinyMask, kTinyMask, 0}));
  EXPECT_EQ(Ids(ids.begin() + 8, ids.end()), Ids(clean.begin() + 8, clean.end()));
  const auto keys = made.at("keys").as<uint8_t>();
  EXPECT_EQ(std::vector<uint8_t>(keys.begin(), keys.begin() + 8),
            (std::vector<uint8_t>{1, 1, 1, 1, 0, 0, 0, 0}));
  int64_t substitutes = 0, inserts = 0;
  for (size_t i = 0; i < 16; ++i) {
    substitutes += made.at("targets").as<int32_t>()[i] >= 0 ? 1 : 0;
    inserts += made.at("insert_at").as<int32_t>()[i] >= 0 ? 1 : 0;
    if (i >= 8) EXPECT_EQ(made.at("targets").as<int32_t>()[i], -1);
  }
  EXPECT_EQ(substitutes, 3);
  EXPECT_EQ(inserts, 4);
}

TEST(EditFlow, TheGradientIsThatOfTheLoss) {
  const auto model = edit_model();
  const std::vector<std::pair<const char*, const char*>> settings = {
      {"masks", "any"}, {"empty", "any"}, {"empty", "middle"}, {"empty", "left"}};
  for (const auto& [start, order] : settings) {
    const ObjectiveRef objective = tiny_objective(
        "editflow", {{"start", start}, {"start_length", 5}, {"insert_order", order}});
    LossRunner runner(model, objective);
    Batch raw = tiny_rows(2, 8);
    raw.set("u_t", Tensor::from(Shape{2}, std::vector<float>{0.6f, 0.4f}));
    expect_gradient(*model, runner, *objective,
                    objective->prepare(raw, 3, 1, prepare_context(*objective, model->config())));
  }
}

TEST(EditFlow, MicroBatchesMakeOneBatch) {
  const auto model = edit_model();
  for (const char* sampling : {"uniform", "low_discrepancy", "importance"}) {
    const ObjectiveRef objective = tiny_objective("editflow", {{"time_sampling", sampling}});
    LossRunner runner(model, objective);
    const LossValue whole = runner.run(tiny_rows(4, 8, 0, 4), 3, 1, nullptr);
    const LossValue first = runner.run(tiny_rows(1, 8, 0, 4), 3, 1, nullptr);
    const LossValue rest = runner.run(tiny_rows(3, 8, 1, 4), 3, 1, nullptr);
    EXPECT_NEAR(first.sum + rest.sum, whole.sum, 1e-4 * std::abs(whole.sum) + 1e-5);
    EXPECT_EQ(first.normalizer + rest.normalizer, whole.normalizer);
  }
}

TEST(EditFlow, PackedRowsAreRefused) {
  const auto model = edit_model();
  const ObjectiveRef objective = tiny_objective("editflow");
  Batch raw = tiny_rows(1, 4);
  raw.set("segments", Tensor::from(Shape{1, 4}, Ids{1, 1, 2, 2}));
  const Error error = test::error_of(
      [&] { objective->prepare(raw, 3, 1, prepare_context(*objective, model->config())); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_NE(error.hint().find("pack = false"), std::string::npos);
}

TEST(EditFlow, AModelWithoutItsHeadsIsRefused) {
  const auto model = tiny_model();
  LossRunner runner(model, tiny_objective("editflow"));
  const Error error = test::error_of([&] { runner.run(tiny_rows(1, 4), 3, 1, nullptr); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
}

} // namespace
} // namespace dllm::noise
