// Batches made ahead: the same ones, in order, with errors at their place and no thread left.
#include "text/data/prefetch.h"

#include "../tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "text/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace dllm::text {
namespace {

MadeBatch numbered(int64_t position) {
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1}, std::vector<int64_t>{position}));
  return {std::move(batch), 3, nullptr};
}

int64_t number_of(const std::optional<MadeBatch>& made) {
  return made->batch->at("ids").as<int64_t>()[0];
}

TEST(Prefetch, KeepsTheOrderAndIsNeverFurtherAheadThanItsDepth) {
  std::atomic<int64_t> taken{0}, calls{0}, furthest{0};
  Prefetch ahead(
      [&](int64_t position) {
        furthest = std::max(furthest.load(), ++calls - taken.load());
        return numbered(position);
      },
      5, 100, 2);
  for (int64_t i = 0; i < 100; ++i) {
    ++taken; // before: the thread may go on as soon as one is taken
    EXPECT_EQ(number_of(ahead.take()), 5 + 3 * i);
  }
  EXPECT_EQ(calls, 100);
  EXPECT_LE(furthest, 2);
  EXPECT_FALSE(ahead.take().has_value());
}

TEST(Prefetch, AnErrorComesAtItsPlaceAndIsTheLast) {
  Prefetch ahead(
      [](int64_t position) {
        if (position == 6) fail(Code::data_loss, "a file changed");
        return numbered(position);
      },
      0, 100, 2);
  EXPECT_EQ(number_of(ahead.take()), 0);
  EXPECT_EQ(number_of(ahead.take()), 3);
  const std::optional<MadeBatch> last = ahead.take();
  ASSERT_TRUE(last.has_value());
  EXPECT_FALSE(last->batch.has_value());
  EXPECT_THROW(std::rethrow_exception(last->error), Error);
  EXPECT_FALSE(ahead.take().has_value());
}

TEST(Prefetch, ItsEndStopsTheThread) {
  std::atomic<int> calls{0};
  {
    Prefetch ahead(
        [&](int64_t position) {
          ++calls;
          return numbered(position);
        },
        0, int64_t{1} << 40, 2);
    ahead.take();
  }
  const int at_end = calls;
  EXPECT_LE(at_end, 3);
  std::this_thread::yield();
  EXPECT_EQ(calls, at_end);
}

// The loader.

std::shared_ptr<Dataset> rows_of_text() {
  auto data = std::make_shared<Dataset>(make_byte_tokenizer(), Options(dataset_schema()));
  for (int i = 0; i < 60; ++i) data->add(R"({"text": "row )" + std::to_string(i * i) + "\"}");
  return data;
}

Options settings(const char* json) {
  Options options(loader_schema());
  options.set_json(parse_json(json, "options"));
  return options;
}

// Ids and position after each batch.
std::vector<std::vector<int64_t>> all_of(Loader& loader) {
  std::vector<std::vector<int64_t>> made;
  while (const std::optional<Batch> batch = loader.try_next()) {
    const auto ids = batch->at("ids").as<int32_t>();
    made.emplace_back(ids.begin(), ids.end());
    made.back().push_back(loader.position());
  }
  return made;
}

TEST(Loader, BatchesMadeAheadAreTheSame) {
  for (const char* json :
       {R"({"batch": 3, "length": 8, "epochs": 3})",
        R"({"batch": 3, "length": 8, "epochs": 3, "order": "python"})",
        R"({"batch": 4, "length": 16, "epochs": 2, "pack": false, "response_cut": "responses"})"}) {
    const auto data = rows_of_text();
    Loader plain(data, settings(json)), ahead(data, settings(json));
    const auto expected = all_of(plain);
    ASSERT_GT(expected.size(), 10u);
    ahead.start_ahead(int64_t{1} << 40);
    EXPECT_EQ(all_of(ahead), expected);
    ahead.seek(0);
    ahead.start_ahead(4); // fewer than are taken: the others are made when they are needed
    EXPECT_EQ(all_of(ahead), expected);
  }
}

TEST(Loader, PositionIsThatOfReturnedBatches) {
  const auto data = rows_of_text();
  const char* json = R"({"batch": 3, "length": 8, "epochs": 0})";
  Loader plain(data, settings(json)), ahead(data, settings(json));
  ahead.start_ahead(100);
  for (int i = 0; i < 5; ++i) ahead.next();
  EXPECT_EQ(ahead.position(), 15);
  ahead.stop_ahead();
  EXPECT_EQ(ahead.position(), 15);
  plain.seek(15);
  const Batch next = ahead.next(), expected = plain.next();
  EXPECT_TRUE(std::ranges::equal(next.at("ids").as<int32_t>(), expected.at("ids").as<int32_t>()));
  ahead.start_ahead(100);
  ahead.seek(3);
  plain.seek(3);
  EXPECT_TRUE(std::ranges::equal(ahead.next().at("ids").as<int32_t>(),
                                 plain.next().at("ids").as<int32_t>()));
}

TEST(Loader, RowsMayBeAddedWhileBatchesAreMadeAhead) {
  const auto data = rows_of_text();
  const char* json = R"({"batch": 3, "length": 8, "epochs": 50})";
  Loader plain(data, settings(json)), ahead(data, settings(json));
  const auto expected = all_of(plain);
  ahead.start_ahead(int64_t{1} << 40);
  for (int i = 0; i < 500; ++i) data->add(R"({"text": "a row that no loader has"})");
  EXPECT_EQ(all_of(ahead), expected);
}

} // namespace
} // namespace dllm::text
