#pragma once
// A file of trajectories has one JSON line for each row of a dataset. A run that was stopped goes
// on where its file ends.

#include "base/files.h"
#include "base/made_with.h"
#include "base/task.h"
#include "base/writer_lock.h"
#include "text/data/trajectory.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace dllm::text {

// Calls visit(trajectory, "FILE:LINE") for each line. A last line without its end, which a stopped
// run leaves, is left out when it is not whole. Returns the size of the whole lines in bytes.
// Progress counts bytes. Fails as parse_trajectory, and with data_loss for an idx that repeats.
int64_t read_trajectories(
    const std::string& path, Task* task,
    const std::function<void(Trajectory&& trajectory, const std::string& place)>& visit);

class TrajectoryFile {
public:
  // Opens the file to append to it, or makes it. Removes a last line that is not whole, and with
  // `fresh` all lines. settings: how the lines are made. Fails with failed_precondition when the
  // lines of the file were made with others, and with unavailable while another process writes to
  // the file.
  TrajectoryFile(const std::string& path, const Json& settings, bool fresh, Task* task);

  bool has(int64_t idx) const { return written_.contains(idx); }
  int64_t size() const { return static_cast<int64_t>(written_.size()); }
  // Writes the line of a row with its end. Fails with resource_exhausted when the disk is full.
  void append(int64_t idx, const std::string& line);

private:
  AppendFile file_;
  WriterLock lock_;
  std::set<int64_t> written_;
};

} // namespace dllm::text
