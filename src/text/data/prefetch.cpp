#include "text/data/prefetch.h"

#include <unistd.h>

#include <system_error>
#include <utility>

namespace dllm::text {

Prefetch::Prefetch(Make make, int64_t position, int64_t most, size_t depth)
    : shared_(std::make_unique<Shared>()), process_(::getpid()) {
  try {
    shared_->thread = std::thread([this, make = std::move(make), position, most, depth] {
      run(make, position, most, depth);
    });
  } catch (const std::system_error&) { // no thread can be made: nothing is made ahead
    shared_->is_over = true;
  }
}

bool Prefetch::is_forked() const {
  return process_ != ::getpid();
}

Prefetch::~Prefetch() {
  if (is_forked()) {
    static_cast<void>(shared_.release());
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_cancelled = true;
    shared_->changed.notify_all();
  }
  if (shared_->thread.joinable()) shared_->thread.join();
}

void Prefetch::run(const Make& make, int64_t position, int64_t most, size_t depth) {
  Shared& shared = *shared_;
  for (bool goes_on = most > 0; goes_on;) {
    {
      std::unique_lock lock(shared.mutex);
      shared.changed.wait(lock, [&] { return shared.is_cancelled || shared.made.size() < depth; });
      if (shared.is_cancelled) break;
    }
    MadeBatch made;
    try {
      made = make(position);
    } catch (...) {
      made.error = std::current_exception();
    }
    position += made.rows;
    goes_on = made.batch.has_value() && --most > 0;
    const std::lock_guard lock(shared.mutex);
    shared.made.push_back(std::move(made));
    shared.changed.notify_all();
  }
  const std::lock_guard lock(shared.mutex);
  shared.is_over = true;
  shared.changed.notify_all();
}

std::optional<MadeBatch> Prefetch::take() {
  if (is_forked()) return std::nullopt;
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [&] { return shared_->is_over || !shared_->made.empty(); });
  if (shared_->made.empty()) return std::nullopt;
  MadeBatch made = std::move(shared_->made.front());
  shared_->made.pop_front();
  shared_->changed.notify_all();
  return made;
}

} // namespace dllm::text
