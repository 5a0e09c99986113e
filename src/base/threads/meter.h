#pragma once
// Counts the memory that one caller uses against a limit, and finds the machine's memory.

#include <atomic>
#include <cstdint>
#include <memory>

namespace dllm {

// Counts the bytes of one caller's arrays against a limit. A script runner sets a meter for its
// thread. Arrays and engine memory allocated on that thread are charged to the meter until any
// thread frees them.
class Meter {
public:
  // limit: in bytes; 0 means no limit.
  explicit Meter(int64_t limit) : limit_(limit) {}

  // Adds `bytes`. Fails with resource_exhausted, and adds nothing, if the sum would exceed the
  // limit. Only on the meter's thread.
  void charge(int64_t bytes);
  // Subtracts `bytes`. Any thread may call it.
  void release(int64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const noexcept { return limit_; }
  // Returns the bytes left up to the limit, negative if the limit is exceeded. Only on the meter's
  // thread. REQUIRES: limit() > 0.
  int64_t room() const noexcept {
    return limit_ - (other_bytes_ == nullptr ? 0 : *other_bytes_) - used();
  }
  // Sets a counter of further bytes (the owner's own heap) that count towards the limit. Only on
  // the meter's thread.
  void set_other_bytes(const int64_t* bytes) noexcept { other_bytes_ = bytes; }

private:
  const int64_t limit_;
  const int64_t* other_bytes_ = nullptr;
  std::atomic<int64_t> used_{0};
};

using MeterRef = std::shared_ptr<Meter>;

// Returns the meter of this thread; null if the thread has none.
const MeterRef& current_meter() noexcept;

// Sets the meter of this thread; the destructor restores the previous meter.
class MeterScope {
public:
  explicit MeterScope(MeterRef meter) noexcept;
  ~MeterScope();
  MeterScope(const MeterScope&) = delete;
  MeterScope& operator=(const MeterScope&) = delete;

private:
  MeterRef before_;
};

// A charge on the meter of the thread that constructs this object. The destructor releases the
// bytes.
class MeterCharge {
public:
  MeterCharge() = default;
  // Fails as Meter::charge does. Does nothing on a thread without a meter.
  explicit MeterCharge(int64_t bytes);
  ~MeterCharge();
  MeterCharge(MeterCharge&& other) noexcept;
  MeterCharge& operator=(MeterCharge&&) = delete;

private:
  MeterRef meter_;
  int64_t bytes_ = 0;
};

// Returns the bytes of physical memory, or the control group's limit if that is less. 0: unknown.
int64_t machine_memory();

} // namespace dllm
