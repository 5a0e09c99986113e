// Saves into one folder: the second waits, a cancelled one stops waiting.

#include "base/files.h"

#include "base/task.h"
#include "unit/test_files.h"

#include <atomic>
#include <thread>

namespace dllm {
namespace {

using test::TempFolder;

TEST(FolderLock, TheSecondWaitsForTheFirst) {
  TempFolder folder(true);
  std::atomic<bool> released{false};
  auto first = std::make_unique<FolderLock>(folder.path());
  std::thread second([&] {
    const FolderLock lock(folder.path());
    EXPECT_TRUE(released);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  released = true;
  first.reset();
  second.join();
}

TEST(FolderLock, ACancelledOneStopsWaiting) {
  TempFolder folder(true);
  const FolderLock first(folder.path());
  Task task;
  task.cancel();
  test::expect_error(Code::cancelled, {}, [&] { FolderLock second(folder.path(), &task); });
}

TEST(FolderLock, SeesThatTheFolderWasRenamed) {
  TempFolder folder(true);
  const std::string a = folder.path("a"), b = folder.path("b");
  make_directories(a);
  const FolderLock lock(a);
  EXPECT_TRUE(lock.at_path());
  rename_path(a, b);
  EXPECT_FALSE(lock.at_path());
  make_directories(a);
  EXPECT_FALSE(lock.at_path());
}

TEST(FolderLock, WhatCannotBeLockedIsNoError) {
  TempFolder folder(true);
  const FolderLock lock(folder.path("missing"));
  EXPECT_FALSE(lock.at_path());
}

} // namespace
} // namespace dllm
