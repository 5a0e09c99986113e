#pragma once
// Limits on the work of a rendering: a template is a program from elsewhere.

#include "base/error.h"
#include "base/task.h"

#include <cstddef>
#include <cstdint>

namespace dllm::text::jinja {

struct Limits {
  int64_t steps = 5'000'000; // expressions, statements, items and 16 bytes of text looked at
  int64_t bytes = int64_t{64} << 20; // of all values and texts ever made, not only those alive
  int depth = 250;                   // expressions in expressions, through macro calls too
  const Task* task = nullptr;        // checked every few thousand steps
};

class Budget {
public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(size_t count = 1) {
    // A count is the size of something that is there, far below 2^63.
    steps_ += static_cast<int64_t>(count);
    if (steps_ >= next_check_) {
      check_task(limits_.task);
      next_check_ = steps_ + kStepsBetweenChecks;
    }
    if (steps_ > limits_.steps) {
      fail_with_hint("does a loop in the template never end?", Code::resource_exhausted,
                     "it takes more than {} steps", limits_.steps);
    }
  }

  void grow(size_t bytes) {
    const auto room = static_cast<size_t>(limits_.bytes - bytes_);
    if (bytes > room) {
      fail_with_hint("does a loop in the template never end?", Code::resource_exhausted,
                     "it makes more than {} bytes", limits_.bytes);
    }
    bytes_ += static_cast<int64_t>(bytes);
  }

  // One level of nesting while it lives.
  class Level {
  public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.depth) {
        --budget_.depth_;
        fail(Code::resource_exhausted, "it nests deeper than {} levels", budget_.limits_.depth);
      }
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;

  private:
    Budget& budget_;
  };

private:
  static constexpr int64_t kStepsBetweenChecks = 4096;
  Limits limits_;
  int64_t next_check_ = 0;
  int64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
};

} // namespace dllm::text::jinja
