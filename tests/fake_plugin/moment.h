#pragma once
// When something will have happened, and how it ended: what events and buffers wait for.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

using Clock = std::chrono::steady_clock;

class Moment {
public:
  using Callback = std::function<void(int32_t code, const std::string& message)>;

  // It has ended, but that is not visible before `at`.
  void finish(int32_t code = 0, const std::string& message = {}, Clock::time_point at = {});
  bool is_ready() const;
  void wait() const;
  // True when nothing but the caller can make it happen: waiting for it would never end.
  bool waits_for_caller = false;

  int32_t code() const;
  std::string message() const;
  // Once, at once or by the thread that finishes.
  void when_ready(Callback callback);

private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool finished_ = false;
  Clock::time_point at_;
  int32_t code_ = 0;
  std::string message_;
  std::vector<Callback> callbacks_;
};

} // namespace fake
