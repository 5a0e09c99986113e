#include "ckpt/checkpoint/checkpoint_check.h"

#include "ckpt/checkpoint/checkpoint_folder.h"
#include "unit/test_files.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>

namespace dllm::ckpt {
namespace {

using test::expect_error;
using test::TempFolder;

// A checkpoint of the files a, b, c/d and e.
std::string save(const TempFolder& root) {
  CheckpointWriter writer(root.path(), 3);
  for (const char* name : {"a", "b", "c/d", "e"}) write_file_atomic(writer.path(name), "12345678");
  return writer.commit(0);
}

std::map<std::string, std::string> faults_of(const std::string& folder) {
  std::map<std::string, std::string> faults;
  for (const CheckedFile& file : check_folder(folder, nullptr).files)
    faults[file.entry.path] = file.fault;
  return faults;
}

TEST(CheckpointCheck, AWholeFolderHasNoFault) {
  TempFolder root;
  const std::string folder = save(root);
  const CheckedFolder checked = check_folder(folder, nullptr);
  EXPECT_EQ(checked.step, 3);
  EXPECT_EQ(faults_of(folder),
            (std::map<std::string, std::string>{{"a", ""}, {"b", ""}, {"c/d", ""}, {"e", ""}}));
  EXPECT_TRUE(checked.unlisted.empty());
  const Json json = to_json(checked);
  EXPECT_EQ(json.at("files").size(), 4u);
  EXPECT_EQ(json.at("files")[2].at("path"), "c/d");
  EXPECT_EQ(json.at("files")[2].at("size"), 8);
}

TEST(CheckpointCheck, EveryFaultIsListed) {
  TempFolder root;
  const std::string folder = save(root);
  std::filesystem::remove(join_path(folder, "a"));
  write_file_atomic(join_path(folder, "b"), "1234");
  write_file_atomic(join_path(folder, "c/d"), "12345679");
  std::filesystem::remove(join_path(folder, "e"));
  std::filesystem::create_symlink("b", join_path(folder, "e"));
  write_file_atomic(join_path(folder, "c/more"), "x");
  auto faults = faults_of(folder);
  EXPECT_EQ(faults["a"], "is missing, 8 bytes expected");
  EXPECT_EQ(faults["b"], "has 4 bytes, 8 expected");
  EXPECT_NE(faults["c/d"].find("expected: its content changed"), std::string::npos);
  EXPECT_EQ(faults["e"], "is a symbolic link, which no save writes");
  EXPECT_EQ(check_folder(folder, nullptr).unlisted, std::vector<std::string>{"c/more"});
}

TEST(CheckpointCheck, AFolderWithoutACommitIsAnError) {
  TempFolder root;
  expect_error(Code::not_found, "holds no COMMIT", [&] { check_folder(root.path(), nullptr); });
  const std::string folder = save(root);
  write_file_atomic(join_path(folder, kCommitName), "{");
  expect_error(Code::data_loss, "COMMIT", [&] { check_folder(folder, nullptr); });
}

TEST(CheckpointCheck, ACancelledTaskEndsIt) {
  TempFolder root;
  const std::string folder = save(root);
  Task task;
  task.cancel();
  expect_error(Code::cancelled, "", [&] { check_folder(folder, &task); });
}

} // namespace
} // namespace dllm::ckpt
