#include "base/task.h"

#include "base/error.h"
#include "unit/test_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace dllm {
namespace {

using Clock = SlicedCall::Clock;
using test::expect_error;

constexpr Clock::time_point kAtOnce = Clock::time_point::min();
constexpr Clock::time_point kNoEnd = Clock::time_point::max();

// An operation, then a pause point, as an engine has it.
void operation_ends(const Task* task) {
  if (task->pause_point()->is_due()) task->pause_point()->pause();
  check_task(task);
}

struct SlicedCount {
  std::vector<int> seen;
  SlicedCall::Work work(int operations) {
    return [this, operations](const Task* task) {
      for (int i = 0; i < operations; ++i) {
        seen.push_back(i);
        operation_ends(task);
      }
    };
  }
};

TEST(SlicedCall, GoesOnWhereItWasLeft) {
  SlicedCount count;
  SlicedCall call;
  EXPECT_FALSE(call.start(count.work(3), kAtOnce, nullptr));
  EXPECT_TRUE(call.is_paused());
  EXPECT_EQ(count.seen, (std::vector<int>{0}));
  EXPECT_FALSE(call.resume(kAtOnce, nullptr));
  EXPECT_EQ(count.seen, (std::vector<int>{0, 1})); // one operation at least
  EXPECT_TRUE(call.resume(kNoEnd, nullptr));
  EXPECT_EQ(count.seen, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(call.is_paused());
  // The same object, another call, no pause.
  EXPECT_TRUE(call.start(count.work(2), kNoEnd, nullptr));
  EXPECT_EQ(count.seen.size(), 5u);
}

TEST(SlicedCall, BringsFailuresBack) {
  SlicedCall call;
  const auto fails = [](const Task* task) {
    operation_ends(task);
    throw std::runtime_error("seven");
  };
  EXPECT_FALSE(call.start(fails, kAtOnce, nullptr));
  EXPECT_THROW(call.resume(kNoEnd, nullptr), std::runtime_error);
  EXPECT_FALSE(call.is_paused());
  SlicedCount count;
  EXPECT_TRUE(call.start(count.work(1), kNoEnd, nullptr));
}

TEST(SlicedCall, TheTaskOfEachSliceStopsIt) {
  SlicedCount count;
  SlicedCall call;
  {
    Task first;
    EXPECT_FALSE(call.start(count.work(5), kAtOnce, &first));
  }
  Task second; // the first one is destroyed
  second.set_deadline(0);
  expect_error(Code::deadline_exceeded, "deadline", [&] { call.resume(kNoEnd, &second); });
  EXPECT_FALSE(call.is_paused());
  Task third;
  EXPECT_FALSE(call.start(count.work(5), kAtOnce, &third));
  third.cancel();
  expect_error(Code::cancelled, "cancelled", [&] { call.resume(kNoEnd, &third); });
}

TEST(SlicedCall, DropUnwindsTheCall) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = held;
  const auto keeps = [](std::shared_ptr<int> kept) {
    return [kept](const Task* task) {
      const std::shared_ptr<int> on_the_stack = kept;
      for (;;) operation_ends(task);
    };
  };
  SlicedCall call;
  EXPECT_FALSE(call.start(keeps(std::move(held)), kAtOnce, nullptr));
  EXPECT_FALSE(seen.expired());
  call.drop();
  EXPECT_TRUE(seen.expired());
  EXPECT_FALSE(call.is_paused());
  call.drop(); // again: nothing
  auto again = std::make_shared<int>(2);
  const std::weak_ptr<int> other = again;
  {
    SlicedCall ends;
    EXPECT_FALSE(ends.start(keeps(std::move(again)), kAtOnce, nullptr));
  }
  EXPECT_TRUE(other.expired());
}

// What a slice allocates is charged to who called it, not to who called the slice before.
TEST(SlicedCall, ChargesTheCallerOfEachSlice) {
  const auto first = std::make_shared<Meter>(0), second = std::make_shared<Meter>(0);
  std::vector<MeterCharge> charges;
  charges.reserve(2);
  const auto allocates = [&](const Task* task) {
    charges.emplace_back(100);
    operation_ends(task);
    charges.emplace_back(20);
  };
  SlicedCall call;
  {
    const MeterScope scope(first);
    EXPECT_FALSE(call.start(allocates, kAtOnce, nullptr));
  }
  {
    const MeterScope scope(second);
    EXPECT_TRUE(call.resume(kNoEnd, nullptr));
  }
  EXPECT_EQ(first->used(), 100);
  EXPECT_EQ(second->used(), 20);
}

// The thread that holds the call does not exist in the child: there the call is given up, and new
// ones work.
TEST(SlicedCall, AChildOfAForkGivesItUp) {
  SlicedCount count;
  SlicedCall call;
  EXPECT_FALSE(call.start(count.work(3), kAtOnce, nullptr));
  const pid_t child = fork();
  if (child == 0) {
    bool good = !call.is_paused();
    good = good && call.start(count.work(2), kNoEnd, nullptr) && count.seen.size() == 3;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(call.resume(kNoEnd, nullptr)); // the parent's goes on
}

} // namespace
} // namespace dllm
