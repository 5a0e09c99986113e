// Every reserved array of a batch, given to every objective: it is used, or an error names it.

#include "base/error.h"
#include "noise/objective.h"
#include "unit/noise/tiny.h"
#include "unit/test_files.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace dllm::noise {
namespace {

constexpr int64_t kBatch = 2, kSeq = 8;

PrepareContext tiny_context() {
  PrepareContext context;
  context.vocab = 23;
  context.mask_id = kTinyMask;
  context.block_length = 4;
  return context;
}

// A valid value of an array; `variant` 0 and 1 differ.
Tensor value_of(const ReservedArray& array, int variant) {
  const int64_t width = array.rank > 1 ? kSeq : 1;
  if (array.name == "rows")
    return Tensor::from(Shape{2}, std::vector<int64_t>{variant * 3, kBatch + 3});
  Shape shape = array.rank == 1 ? Shape{kBatch} : Shape{kBatch, kSeq};
  if (array.rank == 3) shape = Shape{kBatch, kSeq, 16};
  Tensor made(array.dtype, shape);
  for (int64_t i = 0; i < made.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t place = i % width;
    if (array.dtype == DType::f32) {
      made.mutable_as<float>()[at] = variant == 0 ? 0.25f : 1.0f;
    } else if (array.dtype == DType::u8) {
      // Half of a row, or one of the rows.
      const bool on = array.rank > 1 ? place < kSeq / 2 : i == 0;
      made.mutable_as<uint8_t>()[at] = on == (variant == 0) ? 1 : 0;
    } else if (array.name == "prompt_length") {
      made.mutable_as<int32_t>()[at] = variant == 0 ? 1 : 6; // no multiple of a block apart
    } else if (array.name == "segments") {
      made.mutable_as<int32_t>()[at] = variant == 0 || place < 5 ? 1 : 0;
    } else if (array.name == "limit") {
      made.mutable_as<int32_t>()[at] = variant == 0 ? 8 : 7;
    } else {
      made.mutable_as<int32_t>()[at] = static_cast<int32_t>((place + variant) % 8);
    }
  }
  return made;
}

bool same(const Tensor& x, const Tensor& y) {
  return x.dtype() == y.dtype() && x.shape() == y.shape() &&
         std::memcmp(x.bytes(), y.bytes(), static_cast<size_t>(x.byte_size())) == 0;
}

// Whether some array but `name` differs.
bool others_differ(const Batch& x, const Batch& y, std::string_view name) {
  if (x.size() != y.size()) return true;
  for (const auto& [key, array] : x) {
    if (key == name) continue;
    if (!y.has(key) || !same(array, y.at(key))) return true;
  }
  return false;
}

// "" when the array is used, else what is wrong.
std::string verdict(const Objective& objective, const ReservedArray& array) {
  std::vector<Batch> made;
  for (int variant = 0; variant < 2; ++variant) {
    Batch raw = tiny_rows(kBatch, kSeq);
    raw.set(std::string(array.name), value_of(array, variant));
    try {
      made.push_back(objective.prepare(raw, 7, 3, tiny_context()));
    } catch (const Error& error) {
      const bool named = error.text().find(array.name) != std::string::npos;
      return named && error.code() == Code::invalid_argument ? "" : "error: " + error.text();
    }
  }
  if (others_differ(made[0], made[1], array.name)) return "";
  // The model reads these from the prepared batch; `rows` chooses noise, which some have none of.
  constexpr std::string_view kPassedOn[] = {"positions", "limit", "rows", "segments", "t"};
  const bool passed_on = std::ranges::find(kPassedOn, array.name) != std::end(kPassedOn);
  const bool kept = passed_on && made[0].has(array.name) && made[1].has(array.name) &&
                    !same(made[0].at(array.name), made[1].at(array.name));
  return kept ? "" : "ignored";
}

TEST(GivenRows, EveryReservedArrayIsUsedOrRefusedByName) {
  for (const std::string& name : objective_names()) {
    if (name == "token_ce") continue; // has no raw rows
    const ObjectiveRef objective = make_objective(name);
    for (const ReservedArray& array : reserved_arrays()) {
      EXPECT_EQ(verdict(*objective, array), "") << name << ", " << array.name;
    }
  }
}

TEST(GivenRows, LossArraysOfACallerAreKept) {
  const auto find = [](std::string_view name) {
    return *std::ranges::find(reserved_arrays(), name, &ReservedArray::name);
  };
  for (const std::string& name : objective_names()) {
    const ObjectiveRef objective = make_objective(name);
    Batch own = tiny_rows(kBatch, kSeq);
    own.set("targets", value_of(find("targets"), 1));
    own.set("weights", value_of(find("weights"), 1));
    try {
      const Batch made = objective->prepare(own, 7, 3, tiny_context());
      for (const auto& [key, array] : own) EXPECT_TRUE(same(made.at(key), array)) << name << key;
      EXPECT_TRUE(objective->is_prepared(own)) << name;
    } catch (const Error& error) { // it needs another array in addition
      EXPECT_NE(error.text().find("no array"), std::string::npos) << name << ": " << error.text();
    }
  }
}

TEST(GivenRows, AGivenTokenThatCountsIsAnError) {
  Batch own = tiny_rows(kBatch, kSeq);
  own.set("targets", tiny_rows(kBatch, kSeq).at("ids"));
  own.set("weights", Tensor::from(Shape{kBatch, kSeq}, std::vector<float>(kBatch * kSeq, 1.0f)));
  Tensor keep(DType::u8, {kBatch, kSeq});
  keep.mutable_as<uint8_t>()[kSeq + 3] = 1;
  own.set("keep", keep);
  test::expect_error(Code::invalid_argument, "keep[1, 3] is 1",
                     [&] { make_objective("mdlm")->is_prepared(own); });
}

TEST(GivenRows, PromptLengthIsKeep) {
  for (const std::string name : {"mdlm", "llada_sft", "bd3lm", "ar", "uniform"}) {
    const ObjectiveRef objective = make_objective(name);
    Batch by_length = tiny_rows(kBatch, kSeq), by_keep = by_length;
    by_length.set("prompt_length", Tensor::from(Shape{kBatch}, std::vector<int32_t>{3, 8}));
    Tensor keep(DType::u8, {kBatch, kSeq});
    for (size_t i = 0; i < 16; ++i) keep.mutable_as<uint8_t>()[i] = i < 3 || i >= 8 ? 1 : 0;
    by_keep.set("keep", keep);
    EXPECT_FALSE(others_differ(objective->prepare(by_length, 1, 1, tiny_context()),
                               objective->prepare(by_keep, 1, 1, tiny_context()), ""))
        << name;
  }
  Batch wrong = tiny_rows(kBatch, kSeq);
  wrong.set("prompt_length", Tensor::from(Shape{kBatch}, std::vector<int32_t>{3, 9}));
  test::expect_error(Code::invalid_argument, "prompt_length[1] = 9",
                     [&] { make_objective("mdlm")->prepare(wrong, 1, 1, tiny_context()); });
}

} // namespace
} // namespace dllm::noise
