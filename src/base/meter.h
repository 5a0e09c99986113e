#pragma once
// Memory: what the machine has, and the bytes that one caller may take.

#include <atomic>
#include <cstdint>
#include <memory>

namespace dllm {

// Counts the bytes of arrays that one caller makes, against a limit. A script runner sets its meter for its thread; arrays
// and engine memory made on that thread are charged to it until they are freed, by whichever thread.
class Meter {
public:
  // limit: bytes; 0: none.
  explicit Meter(int64_t limit) : limit_(limit) {}

  // Fails with resource_exhausted, and counts nothing, when `bytes` more are over the limit.
  // Called on the thread that the meter is set for.
  void charge(int64_t bytes);
  // From any thread.
  void release(int64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const noexcept { return limit_; }
  // Bytes until the limit; negative when it is passed. On the meter's thread. REQUIRES: there is a limit.
  int64_t room() const noexcept {
    return limit_ - (other_bytes_ == nullptr ? 0 : *other_bytes_) - used();
  }
  // Further bytes that count towards the limit: the owner's own heap. On the meter's thread.
  void set_other_bytes(const int64_t* bytes) noexcept { other_bytes_ = bytes; }

private:
  const int64_t limit_;
  const int64_t* other_bytes_ = nullptr;
  std::atomic<int64_t> used_{0};
};

using MeterRef = std::shared_ptr<Meter>;

// The meter of this thread; null when there is none.
const MeterRef& current_meter() noexcept;

// Sets the meter of this thread and puts the earlier one back.
class MeterScope {
public:
  explicit MeterScope(MeterRef meter) noexcept;
  ~MeterScope();
  MeterScope(const MeterScope&) = delete;
  MeterScope& operator=(const MeterScope&) = delete;

private:
  MeterRef before_;
};

// A charge on the meter of the thread that made it, given back by the destructor.
class MeterCharge {
public:
  MeterCharge() = default;
  // Does nothing without a meter. Fails as Meter::charge.
  explicit MeterCharge(int64_t bytes);
  ~MeterCharge();
  MeterCharge(MeterCharge&& other) noexcept;
  MeterCharge& operator=(MeterCharge&&) = delete;

private:
  MeterRef meter_;
  int64_t bytes_ = 0;
};

// Bytes of physical memory, or of the control group when that is less. 0: not known.
int64_t machine_memory();

} // namespace dllm
