#pragma once
// Runs that were started: how they end, and how many may be under way.

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

// The failure of a run that took donated arguments with it.
graph::StateLost lost_state(const Error& error);

// Shared by the results of the launch. Any thread.
class Run {
public:
  // finished: an event of each device here, from that of rank first_rank on. took_state: arguments were donated, so a run
  // that fails has lost them.
  Run(std::vector<EventHandle> finished, int64_t first_rank, std::string program, bool took_state);

  // Blocks until the run is over on every device. Never throws: check() throws how it ended.
  void wait();
  // Throws what the run failed with, of the first rank that failed; nothing when it went well or is not known to be over.
  void check() const;
  // True for the first caller: the results of one run cost one trip to the device, however many are
  // read.
  bool begin_trip();
  // Results that may be fetched together. REQUIRES: called before others see the results.
  void set_results(std::vector<std::weak_ptr<DeviceBuffer>> results);
  std::vector<std::shared_ptr<DeviceBuffer>> results() const;

private:
  int64_t first_rank_;
  std::string program_;
  bool took_state_;
  std::mutex waiting_; // one waiter at a time; guards finished_
  std::vector<EventHandle> finished_;
  mutable std::mutex mutex_; // guards what follows
  std::optional<Error> failure_;
  bool trip_begun_ = false;
  std::vector<std::weak_ptr<DeviceBuffer>> results_;
};

// Runs of one engine that are started and perhaps not finished, at most so many. Any thread.
class RunQueue {
public:
  explicit RunQueue(size_t limit) : limit_(limit) {}
  void set_limit(size_t limit);
  size_t limit() const;
  // Waits for the oldest runs until one more fits. How they ended is reported by the reads of their
  // results.
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
