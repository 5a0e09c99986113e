#include "text/data/collate.h"

#include "../tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "text/data/loader.h"

#include <gtest/gtest.h>

#include <numeric>

namespace dllm::text {
namespace {

std::shared_ptr<Dataset> answers() {
  auto data = std::make_shared<Dataset>(make_byte_tokenizer(), Options(dataset_schema()));
  data->add(
      R"([{"ids": [1, 2, 3, 4, 5], "keep": [1, 1, 0, 0, 0]}, {"ids": [6, 7, 8], "keep": [1, 0, 0]}])");
  return data; // each with eos, 256, at its end
}

Batch load(const char* json) {
  Options options(loader_schema());
  options.set_json(parse_json(json, "options"));
  return Loader(answers(), options).next();
}

template <class T> std::vector<int> numbers(const Batch& batch, const char* name) {
  const auto values = batch.at(name).as<T>();
  return {values.begin(), values.end()};
}

TEST(Collate, PadsOnTheLeft) {
  const Batch batch = load(
      R"({"batch": 2, "length": 8, "pack": false, "shuffle": false, "pad_side": "left", "pad_id": 9})");
  EXPECT_EQ(numbers<int32_t>(batch, "ids"),
            (std::vector<int>{9, 9, 1, 2, 3, 4, 5, 256, 9, 9, 9, 9, 6, 7, 8, 256}));
  EXPECT_EQ(numbers<uint8_t>(batch, "keep"),
            (std::vector<int>{1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(numbers<int32_t>(batch, "segments"),
            (std::vector<int>{0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(Collate, EndsRowsWithLearnedEos) {
  const Batch batch =
      load(R"({"batch": 2, "length": 8, "pack": false, "shuffle": false, "eos_block": 4,
                               "pad_id": 9, "see_padding": true})");
  EXPECT_EQ(numbers<int32_t>(batch, "ids"),
            (std::vector<int>{1, 2, 3, 4, 5, 256, 256, 256, 6, 7, 8, 256, 9, 9, 9, 9}));
  EXPECT_EQ(numbers<uint8_t>(batch, "keep"),
            (std::vector<int>{1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(numbers<int32_t>(batch, "segments"), std::vector<int>(16, 1));
}

TEST(Collate, CutsResponsesToOneOfTheBatch) {
  const char* options =
      R"({"batch": 2, "length": 8, "pack": false, "shuffle": false, "response_cut": "responses", "epochs": 0})";
  Options parsed(loader_schema());
  parsed.set_json(parse_json(options, "options"));
  Loader loader(answers(), parsed);
  std::vector<std::vector<int>> drawn;
  bool shorter = false, whole = false;
  for (int i = 0; i < 20; ++i) {
    drawn.push_back(numbers<int32_t>(loader.next(), "segments"));
    const auto& seen = drawn.back();
    const int first = std::accumulate(seen.begin(), seen.begin() + 8, 0);
    EXPECT_EQ(std::accumulate(seen.begin() + 8, seen.end(), 0), 4);
    EXPECT_TRUE(first == 5 || first == 6); // prompt 2, response 3 or 4
    shorter = shorter || first == 5;
    whole = whole || first == 6;
  }
  EXPECT_TRUE(shorter && whole);
  loader.seek(6);
  EXPECT_EQ(numbers<int32_t>(loader.next(), "segments"), drawn[3]);
}

TEST(Collate, CutsColumnsOfTheBatch) {
  const Batch batch = load(R"({"batch": 2, "length": 8, "pack": false, "shuffle": false,
                               "response_cut": "columns", "response_cut_ratio": 1})");
  const auto seen = numbers<int32_t>(batch, "segments");
  const int columns = std::accumulate(seen.begin(), seen.begin() + 8, 0);
  EXPECT_GE(columns, 4);
  EXPECT_LE(columns, 5);
}

TEST(Collate, OptionsOfSingleRowsAreRefusedForPackedOnes) {
  for (const char* json :
       {R"({"pad_side": "left"})", R"({"eos_block": 4})", R"({"see_padding": true})",
        R"({"response_cut": "columns"})", R"({"pack": false, "eos_block": 7})",
        R"({"pack": false, "response_cut_ratio": 0.5})"})
    EXPECT_THROW(load(json), Error) << json;
}

TEST(Collate, RowsThatDoNotFitAreNamed) {
  const std::vector<Example> rows = {{.ids = {1, 2}, .keep = {0, 0}},
                                     {.ids = {1, 2, 3}, .keep = {0, 0, 0}}};
  EXPECT_THROW(pad_rows(rows, 2, 0, PadSide::right), Error);
  EXPECT_THROW(EditStart::parse("masks[length:]"), Error);
  EXPECT_THROW(EditStart::parse("tokens"), Error);
  EXPECT_EQ(EditStart::parse("masks").masks, 128);
}

TEST(Collate, PythonOrderIsAPermutation) {
  // random.Random(42).shuffle(x := list(range(8))) of CPython 3.
  EXPECT_EQ(python_order(8, 42), (std::vector<int64_t>{3, 4, 6, 7, 2, 5, 0, 1}));
  EXPECT_EQ(python_order(1, 0), std::vector<int64_t>{0});
  EXPECT_EQ(python_order(50, uint64_t{1} << 40).size(), 50u);
}

} // namespace
} // namespace dllm::text
