#include "text/data/loader.h"

#include "../tokenizer/byte_tokenizer.h"
#include "../tokenizer/golden.h"
#include "base/error.h"

#include <gtest/gtest.h>

#include <set>

namespace dllm::text {
namespace {

Options with(const char* json) {
  Options options(loader_schema());
  options.set_json(parse_json(json, "options"));
  return options;
}

// `rows` rows of different lengths without eos.
std::shared_ptr<Dataset> make_rows(int rows) {
  Options options(dataset_schema());
  options.set_i64("append_eos", 0);
  auto data = std::make_shared<Dataset>(make_byte_tokenizer(), options);
  for (int i = 0; i < rows; ++i) {
    data->add(R"({"text": ")" +
              std::string(static_cast<size_t>(1 + i % 11), static_cast<char>('a' + i % 26)) +
              std::to_string(i) + "\"}");
  }
  return data;
}

std::vector<int32_t> ids_of(const Batch& batch) {
  const auto ids = batch.at("ids").as<int32_t>();
  return {ids.begin(), ids.end()};
}

TEST(Shuffle, IsAPermutation) {
  for (int64_t count : {1, 2, 3, 5, 16, 17, 1000, 4097}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) seen.insert(permuted(i, count, make_key(7)));
    EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(Shuffle, PlacesAreUniform) {
  // 6 elements, 6000 keys: each element at each place 1000 times, standard deviation 29.
  int counts[6][6] = {};
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    for (int64_t i = 0; i < 6; ++i) ++counts[i][permuted(i, 6, make_key(seed))];
  }
  for (const auto& row : counts) {
    for (int count : row) EXPECT_NEAR(count, 1000, 5 * 29);
  }
}

TEST(Loader, PacksRowsWithSegments) {
  Options options(dataset_schema());
  auto data = std::make_shared<Dataset>(make_byte_tokenizer(), options);
  data->add(R"([{"text": "ab"}, {"prompt": "c", "response": "d"}, {"text": "efg"}])");
  Loader loader(data, with(R"({"batch": 2, "length": 4, "shuffle": false})"));
  EXPECT_EQ(loader.sequences(), 3); // 3 + 3 + 4 tokens
  const Batch first = loader.next();
  EXPECT_EQ(first.at("ids").shape(), (Shape{2, 4}));
  EXPECT_EQ(ids_of(first), (std::vector<int32_t>{'a', 'b', 256, 'c', 'd', 256, 'e', 'f'}));
  EXPECT_TRUE(std::ranges::equal(first.at("keep").as<uint8_t>(),
                                 std::vector<uint8_t>{0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_TRUE(std::ranges::equal(first.at("segments").as<int32_t>(),
                                 std::vector<int32_t>{1, 1, 1, 2, 1, 1, 2, 2}));
  EXPECT_TRUE(std::ranges::equal(first.at("rows").as<int64_t>(), std::vector<int64_t>{0, 2}));
  const Batch last = loader.next();
  EXPECT_EQ(ids_of(last), (std::vector<int32_t>{'g', 256, 256, 256}));
  EXPECT_TRUE(std::ranges::equal(last.at("keep").as<uint8_t>(), std::vector<uint8_t>{0, 0, 1, 1}));
  EXPECT_TRUE(
      std::ranges::equal(last.at("segments").as<int32_t>(), std::vector<int32_t>{1, 1, 0, 0}));
  EXPECT_FALSE(loader.try_next().has_value());
  try {
    loader.next();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::out_of_range);
    EXPECT_EQ(e.text(), "the data ended after 2 batches");
  }
}

TEST(Loader, SingleRowsAreCutAndPadded) {
  auto data = std::make_shared<Dataset>(make_byte_tokenizer(), Options(dataset_schema()));
  data->add(R"([{"text": "abcdef"}, {"text": "x"}])");
  const auto ids = [&](const char* json) { return ids_of(Loader(data, with(json)).next()); };
  EXPECT_EQ(ids(R"({"pack": false, "shuffle": false, "length": 3, "pad_id": 0})"),
            (std::vector<int32_t>{'a', 'b', 'c', 'x', 256, 0}));
  EXPECT_EQ(ids(R"({"pack": false, "shuffle": false, "length": 3, "truncate": "left"})"),
            (std::vector<int32_t>{'e', 'f', 256, 'x', 256, 256}));
  EXPECT_EQ(ids(R"({"pack": false, "shuffle": false, "length": 3, "truncate": "drop"})"),
            (std::vector<int32_t>{'x', 256, 256}));
}

TEST(Loader, ResumesExactlyAnywhere) {
  const auto data = make_rows(137);
  for (const char* json : {R"({"batch": 4, "length": 16, "epochs": 3, "seed": 5})",
                           R"({"batch": 4, "length": 8, "epochs": 3, "pack": false})"}) {
    Loader whole(data, with(json));
    std::vector<std::pair<int64_t, std::vector<int32_t>>> batches;
    for (;;) {
      const int64_t position = whole.position();
      const auto batch = whole.try_next();
      if (!batch) break;
      batches.emplace_back(position, ids_of(*batch));
    }
    ASSERT_GT(batches.size(), 10u);
    for (const auto& [position, ids] : batches) {
      Loader resumed(data, with(json));
      resumed.seek(position);
      EXPECT_EQ(ids_of(resumed.next()), ids);
    }
  }
}

TEST(Loader, EpochsHoldEveryRowOnceInAnotherOrder) {
  const auto data = make_rows(50);
  Loader loader(data, with(R"({"batch": 50, "length": 16, "pack": false, "epochs": 0})"));
  std::vector<std::multiset<std::vector<int32_t>>> epochs(2);
  std::vector<std::vector<int32_t>> orders;
  for (auto& epoch : epochs) {
    const std::vector<int32_t> ids = ids_of(loader.next());
    orders.push_back(ids);
    for (size_t r = 0; r < 50; ++r) epoch.emplace(ids.begin() + r * 16, ids.begin() + (r + 1) * 16);
  }
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_NE(orders[0], orders[1]);
  Loader other(data, with(R"({"batch": 50, "length": 16, "pack": false, "seed": 1})"));
  EXPECT_NE(ids_of(other.next()), orders[0]);
}

TEST(Loader, RanksShareTheBatchOfOne) {
  const auto data = make_rows(64);
  Loader one(data, with(R"({"batch": 6, "length": 8})"));
  Loader first(data, with(R"({"batch": 3, "length": 8, "rank": 0, "ranks": 2})"));
  Loader second(data, with(R"({"batch": 3, "length": 8, "rank": 1, "ranks": 2})"));
  for (int i = 0; i < 5; ++i) {
    std::vector<int32_t> both = ids_of(first.next());
    const Batch batch = second.next();
    const std::vector<int32_t> rest = ids_of(batch);
    both.insert(both.end(), rest.begin(), rest.end());
    EXPECT_EQ(both, ids_of(one.next()));
    EXPECT_TRUE(std::ranges::equal(batch.at("rows").as<int64_t>(), std::vector<int64_t>{3, 6}));
  }
}

TEST(Loader, SplitsCoverTheRowsAndStayWhenRowsAreAdded) {
  const auto data = make_rows(400);
  const auto rows = [&](const char* split) {
    Options options = with(
        R"({"batch": 1, "length": 24, "pack": false, "shuffle": false, "split_fraction": 0.2})");
    options.set_str("split", split);
    Loader loader(data, options);
    std::set<std::vector<int32_t>> seen;
    while (const auto batch = loader.try_next()) seen.insert(ids_of(*batch));
    return seen;
  };
  const auto train = rows("train"), held_out = rows("held_out"), all = rows("all");
  EXPECT_EQ(train.size() + held_out.size(), all.size());
  EXPECT_NEAR(static_cast<double>(held_out.size()), 80, 40);
  for (const auto& row : held_out) EXPECT_FALSE(train.contains(row));
  data->add(R"({"text": "one more"})");
  EXPECT_TRUE(std::ranges::includes(rows("train"), train));
}

TEST(Loader, SaysWhatIsWrong) {
  const auto data = make_rows(3);
  EXPECT_THROW(Loader(data, with(R"({"length": 1000, "drop_tail": true})")), Error);
  EXPECT_THROW(Loader(data, with(R"({"pad_id": 258})")), Error);
  EXPECT_THROW(Loader(data, with(R"({"rank": 1})")), Error);
  EXPECT_THROW(Loader(std::make_shared<Dataset>(nullptr, Options(dataset_schema())), with("{}")),
               Error);
  Loader loader(data, with(R"({"length": 4})"));
  EXPECT_THROW(loader.seek(-1), Error);
  EXPECT_THROW(loader.seek(loader.sequences() + 1), Error);
  loader.seek(loader.sequences());
  EXPECT_FALSE(loader.try_next().has_value());
}

// golden jax/data: packing with and without eos, and cutting of long rows.
class LoaderGolden : public ::testing::Test {
protected:
  void SetUp() override {
    const std::string path = golden_path("jax/data/cases.json");
    if (!file_exists(path)) GTEST_SKIP() << "no goldens at " << path;
    cases_ = read_json(path);
  }
  std::shared_ptr<Dataset> rows(const TreeJson& token_rows, bool append_eos, int32_t eos) {
    auto tokenizer = make_byte_tokenizer();
    tokenizer->set_special({.eos = eos});
    Options options(dataset_schema());
    options.set_i64("append_eos", append_eos);
    auto data = std::make_shared<Dataset>(tokenizer, options);
    for (const TreeJson& ids : token_rows) data->add(TreeJson{{"ids", ids}}.dump());
    return data;
  }
  TreeJson cases_;
};

TEST_F(LoaderGolden, Packing) {
  ASSERT_FALSE(cases_["tokenize_and_group"].empty());
  for (const TreeJson& item : cases_["tokenize_and_group"]) {
    Options options = with(R"({"batch": 1, "shuffle": false})");
    options.set_i64("length", item["seq_length"].get<int64_t>());
    options.set_i64("drop_tail", item["drop_tail"].get<bool>());
    const auto data =
        rows(item["token_ids"], item["insert_eos"].get<bool>(), item["eos"].get<int32_t>());
    if (item["chunks"].empty()) {
      EXPECT_THROW(Loader(data, options), Error);
      continue;
    }
    Loader loader(data, options);
    for (const TreeJson& chunk : item["chunks"]) {
      const Batch batch = loader.next();
      std::vector<int32_t> kept;
      for (size_t i = 0; i < ids_of(batch).size(); ++i) {
        if (batch.at("keep").as<uint8_t>()[i] == 0) kept.push_back(ids_of(batch)[i]);
      }
      EXPECT_EQ(kept, chunk.get<std::vector<int32_t>>());
    }
    EXPECT_FALSE(loader.try_next().has_value());
  }
}

TEST_F(LoaderGolden, Cutting) {
  ASSERT_FALSE(cases_["clip_row"].empty());
  for (const TreeJson& item : cases_["clip_row"]) {
    Options options = with(R"({"batch": 1, "shuffle": false, "pack": false})");
    options.set_i64("length", item["max_length"].get<int64_t>());
    options.set_str("truncate", item["truncation"].get<std::string>());
    const Batch batch =
        Loader(rows(TreeJson::array({item["row"]["input_ids"]}), false, 9), options).next();
    std::vector<int32_t> got = ids_of(batch);
    got.resize(item["result"]["input_ids"].size());
    EXPECT_EQ(got, item["result"]["input_ids"].get<std::vector<int32_t>>());
  }
}

TEST(Loader, AnEmptySplitIsNamedWithItsOwnNumbers) {
  const auto data = make_rows(3); // 2 + 3 + 4 tokens
  const auto refused = [&](const char* options) -> std::string {
    try {
      const Loader loader(data, with(options));
    } catch (const Error& error) {
      return error.text();
    }
    return "";
  };
  EXPECT_EQ(refused(R"({"split": "held_out", "split_fraction": 0, "length": 4})"),
            "split held_out has 0 of 3 rows with 0 of 9 tokens, too few for a row of length 4");
  EXPECT_EQ(refused(R"({"length": 10, "drop_tail": true})"),
            "split all has 3 of 3 rows with 9 of 9 tokens, too few for a row of length 10");
}

TEST(Loader, RowsThatTeachNothingAreCountedOrRefused) {
  const auto data_of = [](int silent, int taught) {
    auto data = std::make_shared<Dataset>(make_byte_tokenizer(), Options(dataset_schema()));
    for (int i = 0; i < silent; ++i)
      data->add(R"({"prompt": "a long question that fills the row )" + std::to_string(i) +
                R"(", "response": "a"})");
    for (int i = 0; i < taught; ++i)
      data->add(R"({"prompt": "q", "response": "answer )" + std::to_string(i) + R"("})");
    return data;
  };
  const char* rows = R"({"length": 16, "pack": false})";
  const Loader some(data_of(3, 1), with(rows));
  const Loader ends(data_of(3, 0), with(R"({"length": 16, "pack": false, "truncate": "left"})"));
  try {
    const Loader none(data_of(3, 0), with(rows));
    ADD_FAILURE() << "rows without a learned token were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_NE(error.text().find("none of the 3 rows has a token to learn"), std::string::npos)
        << error.text();
  }
}

} // namespace
} // namespace dllm::text
