#pragma once
// Cancels a call at a chosen check of its task: the same place in every run, however busy the
// machine is. Work is counted in checks, as at most 10 ms of it lie between two.

#include "base/error.h"
#include "base/task.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace dllm::test {

// Checks of the task in one whole call of work(task).
template <class F> int64_t count_checks(F&& work) {
  constexpr int64_t kNever = int64_t{1} << 40;
  Task task;
  task.cancel_at_check(kNever);
  work(&task);
  return kNever - task.checks_left();
}

// work(task) with a task that cancels itself at its n-th check must fail with cancelled. Returns
// the checks after it: each thread meets one, and so may the handlers on the way out.
template <class F> int64_t cancel_at(int64_t n, F&& work) {
  Task task;
  task.cancel_at_check(n);
  try {
    work(&task);
    ADD_FAILURE() << "cancelled at check " << n << ", but the call ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::cancelled) << error.text();
  }
  return -task.checks_left();
}

// The first check, the last and some between.
inline std::vector<int64_t> some_of(int64_t checks) {
  std::vector<int64_t> places;
  for (const int64_t eighth : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const int64_t at = eighth * checks / 8;
    if (at >= 1 && (places.empty() || places.back() != at)) places.push_back(at);
  }
  if (places.empty() || places.front() != 1) places.insert(places.begin(), 1);
  return places;
}

} // namespace dllm::test
