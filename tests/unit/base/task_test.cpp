#include "base/task.h"

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

} // namespace
} // namespace dllm
