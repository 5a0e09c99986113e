#include "moment.h"

#include "state.h"

namespace fake {

void Moment::finish(int32_t code, const std::string& message, Clock::time_point at) {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    code_ = code;
    message_ = message;
    at_ = at;
    callbacks.swap(callbacks_);
  }
  changed_.notify_all();
  for (Callback& callback : callbacks) when_ready(std::move(callback));
}

bool Moment::is_ready() const {
  const std::lock_guard lock(mutex_);
  return finished_ && Clock::now() >= at_;
}

void Moment::wait() const {
  Clock::time_point at;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_; });
    at = at_;
  }
  std::this_thread::sleep_until(at);
}

int32_t Moment::code() const {
  const std::lock_guard lock(mutex_);
  return code_;
}

std::string Moment::message() const {
  const std::lock_guard lock(mutex_);
  return message_;
}

void Moment::when_ready(Callback callback) {
  int64_t wait = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!finished_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now());
    wait = left.count();
  }
  State::get().later(wait, [callback = std::move(callback), code = code_, message = message_] {
    callback(code, message);
  });
}

} // namespace fake
