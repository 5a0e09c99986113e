// Packed rows: each text of a row is learned and weighed as on a row of its own.
#include "base/error.h"
#include "noise/objective.h"
#include "tiny.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace dllm::noise {
namespace {

// Text `number` of the row: its tokens are given up to `given`.
struct PackedText {
  int64_t length = 0, given = 0;
};
const std::vector<PackedText> kTexts = {{5, 0}, {1, 0}, {4, 2}, {6, 0}, {3, 1}};
constexpr int64_t kPadding = 2;

// A row of the texts [first, last) with `padding` tokens after them. A token has the same id and
// the same noise in every row that holds its text.
Batch packed_row(const std::string& objective, size_t first, size_t last, int64_t padding) {
  std::vector<int32_t> ids, segments;
  std::vector<uint8_t> keep;
  std::vector<float> noise;
  for (size_t text = first; text < last; ++text) {
    for (int64_t i = 0; i < kTexts[text].length; ++i) {
      const auto number = static_cast<int32_t>(text) * 7 + static_cast<int32_t>(i);
      ids.push_back(number * 5 % 22);
      segments.push_back(static_cast<int32_t>(text - first) + 1);
      keep.push_back(i < kTexts[text].given ? 1 : 0);
      noise.push_back(static_cast<float>(number * 37 % 100) / 100);
    }
  }
  ids.resize(ids.size() + static_cast<size_t>(padding), 0);
  segments.resize(ids.size(), 0);
  keep.resize(ids.size(), 1);
  noise.resize(ids.size(), 0.0f);
  const Shape shape{1, static_cast<int64_t>(ids.size())};
  Batch made;
  made.set("ids", Tensor::from(shape, ids));
  made.set("segments", Tensor::from(shape, segments));
  made.set("keep", Tensor::from(shape, keep));
  if (objective == "ar") return made;
  made.set("u_mask", Tensor::from(shape, noise));
  if (objective == "nano") {
    made.set("timesteps", Tensor::from(Shape{1}, std::vector<int32_t>{500}));
  } else if (objective == "grpo") {
    made.set("advantages", Tensor::from(Shape{1}, std::vector<float>{1.0f}));
  } else {
    made.set("t", Tensor::from(Shape{1}, std::vector<float>{0.6f}));
  }
  return made;
}

PrepareContext context_of(const std::string& objective, int shift) {
  PrepareContext made;
  made.vocab = 23;
  made.mask_id = kTinyMask;
  made.shift = shift;
  made.block_length = objective == "bd3lm" || objective == "dmax" ? 4 : 0;
  return made;
}

// Compares the packed row with its texts alone. The rows of two streams have two halves, and
// complementary rows come twice.
void expect_texts_alone(const std::string& name, const Json& settings, int shift) {
  SCOPED_TRACE(name + " " + settings.dump() + " shift " + std::to_string(shift));
  const ObjectiveRef objective = tiny_objective(name, settings);
  const PrepareContext context = context_of(name, shift);
  const Batch packed =
      objective->prepare(packed_row(name, 0, kTexts.size(), kPadding), 3, 1, context);
  const int64_t width = packed_row(name, 0, kTexts.size(), kPadding).at("ids").shape()[1];
  const int64_t parts = packed.at("targets").count() / width;
  int64_t begin = 0, learned = 0;
  std::vector<float> counts(packed.at("normalizer").as<float>().size());
  for (size_t text = 0; text < kTexts.size(); ++text) {
    const Batch alone = objective->prepare(packed_row(name, text, text + 1, 0), 3, 1, context);
    const int64_t length = kTexts[text].length;
    ASSERT_EQ(alone.at("targets").count(), parts * length);
    for (int64_t part = 0; part < parts; ++part) {
      for (int64_t i = 0; i < length; ++i) {
        const auto here = static_cast<size_t>(part * width + begin + i),
                   there = static_cast<size_t>(part * length + i);
        const int32_t target = packed.at("targets").as<int32_t>()[here];
        learned += target >= 0 ? 1 : 0;
        EXPECT_EQ(target, alone.at("targets").as<int32_t>()[there]) << text << ' ' << i;
        EXPECT_FLOAT_EQ(packed.at("weights").as<float>()[here],
                        alone.at("weights").as<float>()[there])
            << text << ' ' << i;
      }
    }
    for (size_t row = 0; row < counts.size(); ++row)
      counts[row] += alone.at("normalizer").as<float>()[row];
    begin += length;
  }
  EXPECT_GT(learned, 0);
  if (settings.value("loss_norm", "") == "batch") return; // counts rows
  for (size_t row = 0; row < counts.size(); ++row)
    EXPECT_FLOAT_EQ(packed.at("normalizer").as<float>()[row], counts[row]);
}

// Returns the values of loss_norm that an objective has, or its default alone.
std::vector<Json> norms_of(const std::string& name) {
  // A random prefix is one of the row, not of each text.
  std::vector<Json> made = {name == "embedding" ? Json{{"prefix", 0.0}} : Json::object()};
  for (const char* norm : {"token", "sequence", "batch", "masked"}) {
    Options options(objective_schema(name));
    try {
      options.set_json({{"loss_norm", norm}});
    } catch (const Error&) {
      continue;
    }
    made.push_back({{"loss_norm", norm}});
  }
  return made;
}

TEST(PackedRows, TextsAreLearnedAsAlone) {
  int64_t tried = 0;
  for (const std::string& name : objective_names()) {
    const ObjectiveFacts& facts = objective_facts(name);
    if (!facts.packs || facts.rows == RowKind::given) continue;
    for (const Json& settings : norms_of(name)) {
      for (const int shift : {0, 1}) expect_texts_alone(name, settings, shift);
    }
    ++tried;
  }
  EXPECT_GE(tried, 10);
}

TEST(PackedRows, BlocksWithOtherTermsAreLearnedAsAlone) {
  for (const int shift : {0, 1}) {
    expect_texts_alone("bd3lm", {{"ar_weight", 0.5}}, shift);
    expect_texts_alone("bd3lm", {{"complementary", true}, {"loss_weight", "ones"}}, shift);
    expect_texts_alone("bd3lm",
                       {{"complementary", true}, {"loss_weight", "ones"}, {"loss_norm", "masked"}},
                       shift);
  }
}

// With shift 1 the first token of each text is given, and no state of another text predicts it.
TEST(PackedRows, ShiftOneGivesTheFirstTokenOfEachText) {
  for (const std::string& name : objective_names()) {
    const ObjectiveFacts& facts = objective_facts(name);
    if (!facts.packs || facts.rows == RowKind::given || facts.shift == 0) continue;
    SCOPED_TRACE(name);
    const Batch row = packed_row(name, 0, kTexts.size(), kPadding);
    const Batch made = tiny_objective(name)->prepare(row, 3, 1, context_of(name, 1));
    int64_t begin = 0;
    for (const PackedText& text : kTexts) {
      const auto at = static_cast<size_t>(begin);
      EXPECT_LT(made.at("targets").as<int32_t>()[at], 0) << begin;
      if (name != "grpo") // masks some of what is given
        EXPECT_EQ(made.at("ids").as<int32_t>()[at], row.at("ids").as<int32_t>()[at]) << begin;
      begin += text.length;
    }
  }
}

} // namespace
} // namespace dllm::noise
