#include "hub/data_set.h"

#include "hub/loading/load_ahead.h"
#include "unit/hub/cached_data.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <string>

namespace dllm::hub {
namespace {

using test::CachedData;
using test::expect_error;

std::string paths_at(const DataSet& data, const std::string& path) {
  std::string all;
  for (const RemoteFile& file : data.files_at(path)) all += file.path + " ";
  return all;
}

TEST(DataSet, FilesComeInTheOrderOfAFolder) {
  const CachedData cached({{"d/a.jsonl", ""},
                           {"d/a/x.jsonl", ""},
                           {"d/a-b/y.jsonl", ""},
                           {"d/b.parquet", ""},
                           {"d/.hidden/z.jsonl", ""},
                           {"README.md", ""}});
  const DataSet data(parse_address(CachedData::kAddress), nullptr);
  EXPECT_EQ(data.top_folder(), "d");
  EXPECT_EQ(paths_at(data, ""), "d/a/x.jsonl d/a-b/y.jsonl d/a.jsonl d/b.parquet ");
  EXPECT_EQ(paths_at(data, "d/a"), "d/a/x.jsonl ");
  EXPECT_EQ(paths_at(data, "d/b.*"), "d/b.parquet ");
  EXPECT_EQ(paths_at(data, "README.md"), "README.md ") << "a file that is named";
  EXPECT_TRUE(data.is_folder("") && data.is_folder("d/a") && !data.is_folder("d/b.parquet"));
  EXPECT_EQ(data.file_at("d/b.parquet").path, "d/b.parquet");
  EXPECT_EQ(data.address("d/b.parquet"), CachedData::kAddress + "/d/b.parquet");
  expect_error(Code::not_found, "has no file none", [&] { data.files_at("none"); });
}

TEST(DataSet, WithoutTheHubMissingFilesAreCounted) {
  const CachedData cached({{"a.jsonl", "a"}, {"b.jsonl", "b"}, {"c.jsonl", "c"}});
  const DataSet data(parse_address(CachedData::kAddress), nullptr);
  data.check_loadable(data.files_at(""));
  Progress progress(nullptr, 0);
  EXPECT_EQ(data.load(data.file_at("a.jsonl"), progress, nullptr), cached.path("a.jsonl"));
  cached.remove("b.jsonl");
  cached.remove("c.jsonl");
  const std::string missing = "2 of 3 files of data set org/rows are not in the cache";
  expect_error(Code::not_found, missing, [&] { data.check_loadable(data.files_at("")); });
  expect_error(Code::not_found, missing,
               [&] { data.load(data.file_at("b.jsonl"), progress, nullptr); });
  expect_error(Code::not_found, missing,
               [&] { data.open_by_ranges(data.file_at("b.jsonl"), nullptr); });
  data.check_loadable({data.file_at("a.jsonl")});
  const Error error =
      test::error_of([&] { data.load(data.file_at("b.jsonl"), progress, nullptr); });
  EXPECT_NE(error.hint().find("dllm pull dataset:org/rows@" + CachedData::kCommit),
            std::string::npos)
      << error.hint();
}

TEST(DataSet, ACacheWithoutAListHasTheFilesThatAreThere) {
  const CachedData cached({{"a.jsonl", "a"}, {"b.jsonl", "b"}});
  remove_all(cached.cache().tree(CachedData::kCommit));
  cached.remove("b.jsonl");
  const DataSet data(parse_address("hf://datasets/org/rows"), nullptr);
  EXPECT_EQ(paths_at(data, ""), "a.jsonl ");
  expect_error(Code::not_found, "is not in the cache",
               [] { DataSet(parse_address("hf://datasets/org/none"), nullptr); });
}

TEST(LoadAhead, FilesAreTakenInAnyOrderAndAgain) {
  const CachedData cached({{"a.jsonl", "a"}, {"b.jsonl", "b"}, {"c.jsonl", "c"}});
  const DataSet data(parse_address(CachedData::kAddress), nullptr);
  LoadAhead files(data, data.files_at(""), nullptr);
  int waited = 0;
  const auto waiting = [&] { ++waited; };
  for (const char* name : {"a.jsonl", "b.jsonl", "c.jsonl"})
    EXPECT_EQ(files.take(static_cast<size_t>(name[0] - 'a'), waiting), cached.path(name));
  EXPECT_EQ(files.take(0, waiting), cached.path("a.jsonl"));
}

TEST(LoadAhead, AFailureIsThatOfItsOwnFile) {
  const CachedData cached({{"a.jsonl", "a"}, {"b.jsonl", "b"}, {"c.jsonl", "c"}});
  cached.remove("b.jsonl");
  const DataSet data(parse_address(CachedData::kAddress), nullptr);
  Task task;
  LoadAhead files(data, data.files_at(""), &task);
  EXPECT_EQ(files.take(0, [] {}), cached.path("a.jsonl"));
  for (int i = 0; i < 2; ++i)
    expect_error(Code::not_found, "1 of 3 files", [&] { files.take(1, [] {}); });
  task.cancel();
  expect_error(Code::cancelled, "", [&] { files.take(2, [] {}); });
}

} // namespace
} // namespace dllm::hub
