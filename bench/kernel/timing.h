#pragma once
// The best of many short repetitions. One thread is timed by its own processor time, so a busy
// machine does not spoil the figure; more threads by the wall clock.

#include <ctime>

#include <algorithm>
#include <functional>
#include <vector>

inline double seconds_now(bool processor_time) {
  timespec now;
  clock_gettime(processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Repeats until `budget` seconds are spent, three times at least.
inline double best_seconds(int threads, double budget, const std::function<void()>& call) {
  call();
  double best = 1e9, spent = 0;
  for (int i = 0; i < 5000 && (i < 3 || spent < budget); ++i) {
    const double begin = seconds_now(threads == 1);
    call();
    const double seconds = seconds_now(threads == 1) - begin;
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

// The same for several calls that take turns, so that what else runs on the machine slows all of
// them alike.
inline std::vector<double> best_seconds_of(int threads, double budget,
                                           const std::vector<std::function<void()>>& calls) {
  for (const auto& call : calls) call();
  std::vector<double> best(calls.size(), 1e9);
  double spent = 0;
  for (int i = 0; i < 5000 && (i < 3 || spent < budget * static_cast<double>(calls.size())); ++i) {
    for (size_t c = 0; c < calls.size(); ++c) {
      const double begin = seconds_now(threads == 1);
      calls[c]();
      const double seconds = seconds_now(threads == 1) - begin;
      best[c] = std::min(best[c], seconds);
      spent += seconds;
    }
  }
  return best;
}
