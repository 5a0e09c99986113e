// Waiting for runs, their errors, and the queue of runs.

#include "pjrt/runs.h"

#include "base/error.h"
#include "pjrt/engine_state.h"

#include <fmt/core.h>

#include <utility>

namespace dllm::pjrt {

graph::StateLost lost_state(const Error& error) {
  return {error.code(), error.text(), "the run had taken its inputs over", error.hint()};
}

Run::Run(std::vector<EventHandle> finished, int64_t first_rank, std::string program,
         bool took_state)
    : first_rank_(first_rank), program_(std::move(program)), took_state_(took_state),
      finished_(std::move(finished)) {}

void Run::wait() {
  const std::lock_guard one(waiting_);
  if (finished_.empty()) return;
  std::optional<Error> failure;
  for (size_t here = 0; here < finished_.size(); ++here) {
    try {
      await(finished_[here]);
    } catch (const Error& error) {
      if (failure) continue;
      const int64_t rank = first_rank_ + static_cast<int64_t>(here);
      const bool is_one = finished_.size() == 1 && rank == 0;
      const std::string where = is_one ? "" : fmt::format(" on rank {}", rank);
      failure.emplace(error.code(), fmt::format("graph {}{}: {}", program_, where, error.text()),
                      error.hint());
    }
  }
  finished_.clear();
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
}

void Run::check() const {
  const std::lock_guard lock(mutex_);
  if (!failure_) return;
  if (took_state_) throw lost_state(*failure_);
  throw *failure_;
}

bool Run::begin_trip() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(trip_begun_, true);
}

void Run::set_results(std::vector<std::weak_ptr<DeviceBuffer>> results) {
  results_ = std::move(results);
}

std::vector<std::shared_ptr<DeviceBuffer>> Run::results() const {
  std::vector<std::shared_ptr<DeviceBuffer>> alive;
  for (const auto& result : results_) {
    if (auto buffer = result.lock()) alive.push_back(std::move(buffer));
  }
  return alive;
}

void RunQueue::set_limit(size_t limit) {
  const std::lock_guard lock(mutex_);
  limit_ = limit;
}

size_t RunQueue::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

std::shared_ptr<Run> RunQueue::pop_beyond(size_t kept) {
  const std::lock_guard lock(mutex_);
  if (runs_.size() <= kept) return nullptr;
  std::shared_ptr<Run> oldest = std::move(runs_.front());
  runs_.pop_front();
  return oldest;
}

void RunQueue::make_room() {
  while (const auto oldest = pop_beyond(limit() - 1)) oldest->wait();
}

void RunQueue::add(std::shared_ptr<Run> run) {
  const std::lock_guard lock(mutex_);
  runs_.push_back(std::move(run));
}

void RunQueue::drain() {
  while (const auto oldest = pop_beyond(0)) oldest->wait();
}

} // namespace dllm::pjrt
