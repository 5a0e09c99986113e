// Rows of data sets of the hub, from a cache without a network. tests/script/hub/hub_data.py has a
// hub.
#include "base/error.h"
#include "base/log.h"
#include "text/data/dataset.h"
#include "text/data/dataset_spec.h"
#include "unit/hub/cached_data.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dllm::text {
namespace {

using test::CachedData;
using test::expect_error;

std::string rows(const std::string& spec, bool streams = false) {
  Options options(dataset_schema());
  options.set_i64("stream", streams ? 1 : 0);
  const auto data = Dataset::open(spec, nullptr, options, nullptr);
  std::string all;
  for (int64_t i = 0; i < data->size(); ++i) all += std::string(data->text(i)) + " ";
  return all;
}

std::string jsonl(const std::string& words) {
  std::string made;
  for (const char word : words) made += std::string(R"({"text": ")") + word + "\"}\n";
  return made;
}

class HubRows : public ::testing::Test {
protected:
  CachedData cached_{{{"data/train-0.jsonl", jsonl("abc")},
                      {"data/train-1.jsonl", jsonl("def")},
                      {"data/test.jsonl", jsonl("xyz")},
                      {"README.md", "no rows"}}};
  const std::string all_ = CachedData::kAddress;
};

TEST_F(HubRows, AnAddressIsAFolderAFileOrAPattern) {
  for (const bool streams : {false, true}) {
    EXPECT_EQ(rows(all_, streams), "x y z a b c d e f ");
    EXPECT_EQ(rows(all_ + "/data", streams), "x y z a b c d e f ");
    EXPECT_EQ(rows(all_ + "/data/train-1.jsonl", streams), "d e f ");
    EXPECT_EQ(rows(all_ + "/data/train-*.jsonl", streams), "a b c d e f ");
    EXPECT_EQ(rows(all_ + "/data/train-?.jsonl[1:3]*2", streams), "b c b c ");
  }
  EXPECT_EQ(rows("hf://datasets/org/rows[:2]"), "x y ") << "the revision main";
}

TEST_F(HubRows, SplitsSlicesTimesAndMixtures) {
  EXPECT_EQ(rows(all_ + "[train:4]"), "a b c d ");
  EXPECT_EQ(rows(all_ + "[test:1,train:3]"), "x a b c ");
  EXPECT_EQ(rows(all_ + "[-2:]"), "e f ");
  EXPECT_EQ(rows(all_ + "[:50%]"), "x y z a ");
  EXPECT_EQ(rows(all_ + "[test:2]*1.5+" + cached_.path("data/train-1.jsonl") + "[:1]"), "x y y d ");
  expect_error(Code::not_found, "has no split none", [&] { rows(all_ + "[none:1]"); });
  expect_error(Code::not_found, "is not a folder", [&] { rows(all_ + "[name:none,train:1]"); });
  expect_error(Code::not_found, "no rows from 9 on", [&] { rows(all_ + "[9:10]"); });
  expect_error(Code::invalid_argument, "not the address", [&] { rows("hf://models/a/b"); });
}

TEST_F(HubRows, ALimitNeedsNoFileBehindIt) {
  cached_.remove("data/train-1.jsonl");
  EXPECT_EQ(rows(all_ + "[train:3]"), "a b c ");
  expect_error(Code::not_found, "1 of 3 files of data set org/rows are not in the cache",
               [&] { rows(all_ + "[train:4]"); });
  expect_error(Code::not_found, "1 of 3 files of data set org/rows are not in the cache",
               [&] { rows(all_); });
}

TEST_F(HubRows, TheLogNamesFileNumberAndBytes) {
  std::vector<std::string> lines;
  log_hook(LogLevel::info, [&](LogLevel, const std::string& line) { lines.push_back(line); });
  rows(all_ + "[train:4]");
  log_hook(LogLevel::error, nullptr);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].substr(0, 34), "file 2 of 2: data/train-1.jsonl, 4");
}

TEST_F(HubRows, ProgressEndsAtItsTotal) {
  Task task;
  Dataset::open(all_ + "*2.5", nullptr, Options(dataset_schema()), &task);
  EXPECT_GT(task.total(), 0);
  EXPECT_EQ(task.done(), task.total());
}

} // namespace
} // namespace dllm::text
