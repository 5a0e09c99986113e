#include "base/threads/meter.h"

#include "base/error.h"

#include <utility>

namespace dllm {
namespace {

MeterRef& slot() noexcept {
  static thread_local MeterRef meter;
  return meter;
}

} // namespace

void Meter::charge(int64_t bytes) {
  const int64_t other = other_bytes_ == nullptr ? 0 : *other_bytes_;
  const int64_t used = used_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit_ == 0 || bytes <= limit_ - other - used) return;
  release(bytes);
  fail_with_hint("close objects that are not needed, or raise option memory_limit",
                 Code::resource_exhausted,
                 "{} bytes are needed, {} of the script's limit of {} are in use", bytes,
                 used + other, limit_);
}

const MeterRef& current_meter() noexcept {
  return slot();
}

MeterScope::MeterScope(MeterRef meter) noexcept
    : before_(std::exchange(slot(), std::move(meter))) {}

MeterScope::~MeterScope() {
  slot() = std::move(before_);
}

MeterCharge::MeterCharge(int64_t bytes) {
  if (slot() == nullptr) return;
  slot()->charge(bytes);
  meter_ = slot();
  bytes_ = bytes;
}

MeterCharge::MeterCharge(MeterCharge&& other) noexcept
    : meter_(std::move(other.meter_)), bytes_(std::exchange(other.bytes_, 0)) {}

MeterCharge::~MeterCharge() {
  if (meter_ != nullptr) meter_->release(bytes_);
}

} // namespace dllm
