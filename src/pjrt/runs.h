#pragma once
// A Run waits for a run that was started and keeps its error; a RunQueue limits how many are under
// way.

#include "base/error.h"
#include "graph/engine.h"
#include "pjrt/plugin/plugin.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dllm::pjrt {

class DeviceBuffer;

// Returns the error of a failed run that had taken over donated inputs.
graph::StateLost lost_state(const Error& error);

// One run of a program, shared by its results. Any thread.
class Run {
public:
  // finished: an event of each device here, by rank, beginning with rank first_rank. took_state:
  // inputs were donated, so they are lost if the run fails.
  Run(std::vector<EventHandle> finished, int64_t first_rank, std::string program, bool took_state);

  // Blocks until the run has ended on every device. Does not throw; check() throws the error.
  void wait();
  // Throws the error of the first rank that failed. Does nothing after a success, and before wait()
  // has returned.
  void check() const;
  // Returns true for the first caller. All results of one run count as one trip to the device.
  bool begin_trip();
  // Sets the results that may be fetched together. REQUIRES: no other thread has the results yet.
  void set_results(std::vector<std::weak_ptr<DeviceBuffer>> results);
  std::vector<std::shared_ptr<DeviceBuffer>> results() const;

private:
  int64_t first_rank_;
  std::string program_;
  bool took_state_;
  std::mutex waiting_; // one waiter at a time; guards finished_
  std::vector<EventHandle> finished_;
  mutable std::mutex mutex_; // guards failure_ and trip_begun_
  std::optional<Error> failure_;
  bool trip_begun_ = false;
  std::vector<std::weak_ptr<DeviceBuffer>> results_;
};

// The runs of one engine that may not have ended, at most `limit` of them. Any thread.
class RunQueue {
public:
  explicit RunQueue(size_t limit) : limit_(limit) {}
  void set_limit(size_t limit);
  size_t limit() const;
  // Waits for the oldest runs until one more fits. Ignores their errors, which reads of the results
  // report.
  void make_room();
  void add(std::shared_ptr<Run> run);
  void drain(); // waits for all

private:
  std::shared_ptr<Run> pop_beyond(size_t kept);
  mutable std::mutex mutex_;
  size_t limit_;
  std::deque<std::shared_ptr<Run>> runs_;
};

} // namespace dllm::pjrt
