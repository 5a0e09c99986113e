#include "base/task.h"

#include "unit/cancel.h"
#include "unit/test_files.h"

#include <thread>

namespace dllm {
namespace {

using test::expect_error;

TEST(Task, CancelAndDeadline) {
  Task task;
  EXPECT_FALSE(should_stop(&task));
  EXPECT_FALSE(should_stop(nullptr));
  check_task(nullptr);
  check_task(&task);
  task.set_deadline(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(should_stop(&task));
  expect_error(Code::deadline_exceeded, "deadline", [&] { check_task(&task); });
  task.set_deadline(0); // late at once
  expect_error(Code::deadline_exceeded, "deadline", [&] { check_task(&task); });
  task.set_deadline(-1);
  check_task(&task);
  for (const int64_t far : {INT64_MAX, INT64_MAX / 1000000, int64_t{3600000}}) {
    task.set_deadline(far);
    EXPECT_FALSE(task.is_late()) << far;
  }
  task.set_deadline(INT64_MIN);
  EXPECT_FALSE(task.is_late());
  task.cancel();
  expect_error(Code::cancelled, "cancelled", [&] { check_task(&task); });
  task.set_progress(3, 10);
  EXPECT_EQ(task.done(), 3);
  EXPECT_EQ(task.total(), 10);
}

TEST(Task, PiecesStopAtTheCheckThatCancels) {
  std::vector<int64_t> ends;
  const auto work = [&](const Task* task) {
    in_pieces(10, 4, task, [&](int64_t, int64_t end) { ends.push_back(end); });
  };
  EXPECT_EQ(test::count_checks(work), 3);
  EXPECT_EQ(ends, (std::vector<int64_t>{4, 8, 10}));
  ends.clear();
  EXPECT_EQ(test::cancel_at(3, work), 0);
  EXPECT_EQ(ends, (std::vector<int64_t>{4, 8}));
  ends.clear();
  in_pieces(0, 4, nullptr, [&](int64_t, int64_t end) { ends.push_back(end); });
  EXPECT_TRUE(ends.empty());
}

TEST(Task, WaitsForALockOnlyUntilItIsCancelled) {
  std::timed_mutex mutex;
  const std::unique_lock held(mutex);
  std::thread([&] {
    test::cancel_at(2, [&](const Task* task) { lock_with_task(mutex, task); });
  }).join();
}

} // namespace
} // namespace dllm
