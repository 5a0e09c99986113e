#include "hub/loading/load_ahead.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace dllm::hub {

LoadAhead::LoadAhead(const DataSet& data, std::vector<RemoteFile> files, const Task* task)
    : data_(data), files_(std::move(files)), task_(task) {
  own_.set_outer(task);
}

LoadAhead::~LoadAhead() {
  own_.cancel();
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string LoadAhead::take(size_t index, const std::function<void()>& waiting) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  std::unique_lock lock(mutex_);
  wanted_ = std::max(wanted_, index + 2);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
  while (paths_.size() <= index) {
    if (failure_ != nullptr) {
      check_task(task_); // a cancel by the caller comes before the failure
      std::rethrow_exception(failure_);
    }
    changed_.wait_for(lock, kLook);
    check_task(task_);
    waiting();
  }
  return paths_[index];
}

// Waits until the caller wants the file. Returns false at the end of this object.
bool LoadAhead::wait_for_turn(size_t index) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_over_ || index < wanted_; });
  return !is_over_;
}

void LoadAhead::run() {
  for (size_t index = 0; index < files_.size() && wait_for_turn(index); ++index) {
    try {
      std::string path = data_.load(files_[index], progress_, &own_);
      const std::lock_guard lock(mutex_);
      paths_.push_back(std::move(path));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      is_over_ = true;
    }
    changed_.notify_all();
  }
}

} // namespace dllm::hub
