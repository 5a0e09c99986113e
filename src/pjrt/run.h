#pragma once
// One launch of a program: when it is finished, how it ended, and who made the last trip for its
// results.

#include "graph/state_lost.h"
#include "pjrt/event.h"

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
  // took_state: arguments were donated, so a run that fails has lost them.
  Run(EventHandle finished, std::string program, bool took_state);

  // Blocks until the run is over. Never throws: how it ended is asked with check().
  void wait();
  // Throws what the run failed with; nothing when it went well or is not known to be over.
  void check() const;
  // True for the first caller: the results of one run cost one trip to the device, however many are
  // read.
  bool begin_trip();
  // Results that may be fetched together. REQUIRES: called before the results are handed out.
  void set_results(std::vector<std::weak_ptr<DeviceBuffer>> results);
  std::vector<std::shared_ptr<DeviceBuffer>> results() const;

private:
  std::string program_;
  bool took_state_;
  std::mutex waiting_; // one waiter at a time
  mutable std::mutex mutex_;
  EventHandle finished_;
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
