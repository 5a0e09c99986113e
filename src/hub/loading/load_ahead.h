#pragma once
// Loads the files of a data set into the cache, one after another, while the caller reads those
// before.

#include "base/task.h"
#include "hub/data_set.h"
#include "hub/loading/progress.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dllm::hub {

// One thread of the caller uses it.
class LoadAhead {
public:
  // Loads nothing before the first file is taken. The data set and the task, which may be null,
  // outlive this object.
  LoadAhead(const DataSet& data, std::vector<RemoteFile> files, const Task* task);
  ~LoadAhead(); // ends the transfer; its bytes are kept
  LoadAhead(const LoadAhead&) = delete;
  LoadAhead& operator=(const LoadAhead&) = delete;

  // Returns the path of file `index` in the cache, and loads the one after it meanwhile. Calls
  // `waiting` every 20 ms until the file is there. Fails with the error of the file's own transfer,
  // and as check_task does.
  std::string take(size_t index, const std::function<void()>& waiting);
  // Returns the bytes that were loaded.
  int64_t loaded() const { return progress_.done(); }

private:
  void run(); // of the thread
  bool wait_for_turn(size_t index);

  const DataSet& data_;
  const std::vector<RemoteFile> files_;
  const Task* task_;
  Task own_; // cancelled by the caller's task, and by the destructor
  Progress progress_{nullptr, 0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> paths_; // of the files that are loaded
  size_t wanted_ = 0;              // files up to this number may be loaded
  bool is_over_ = false;           // the thread loads nothing more
  std::exception_ptr failure_;     // of the file after the last of paths_
  std::thread thread_;
};

} // namespace dllm::hub
