#pragma once
// Shared by an engine, its programs and its arrays: counts, runs in progress, programs.

#include "base/options.h"
#include "graph/engine.h"
#include "pjrt/cache/executable_cache.h"
#include "pjrt/emit/emit.h"
#include "pjrt/plugin/call.h"
#include "pjrt/plugin/client.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
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

  // Blocks until the run is over. Never throws: check() throws how it ended.
  void wait();
  // Throws what the run failed with; nothing when it went well or is not known to be over.
  void check() const;
  // True for the first caller: the results of one run cost one trip to the device, however many are
  // read.
  bool begin_trip();
  // Results that may be fetched together. REQUIRES: called before others see the results.
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

// Counts of one engine. Any thread.
struct Counters {
  std::atomic<int64_t> compiles{0};    // programs that were compiled
  std::atomic<int64_t> cache_hits{0};  // programs that came from disk instead
  std::atomic<int64_t> round_trips{0}; // times the host waited for numbers: see DeviceBuffer::read
  std::atomic<int64_t> live_bytes{0};  // of arrays that are alive
  std::atomic<int64_t> peak_bytes{0};

  void add_bytes(int64_t bytes);
  void remove_bytes(int64_t bytes) { live_bytes.fetch_sub(bytes, std::memory_order_relaxed); }
};

// A program that was compiled or came from the cache.
struct Built {
  std::shared_ptr<const Executable> executable;
  bool from_cache = false;
  double seconds = 0;
};

// Any thread.
class EngineState {
public:
  explicit EngineState(const Options& options);
  ~EngineState() { runs_.drain(); }
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  const Client& client() const { return *client_; }
  const Device& device() const { return client_->devices()[device_]; }
  bool on_cpu() const { return client_->platform_name() == "cpu"; }
  const EmitOptions& emit_options() const { return emit_; }
  Counters& counters() { return counters_; }
  RunQueue& runs() { return runs_; }
  const ExecutableCache& cache() const { return cache_; }

  // StableHLO text as an executable of this engine's device: from the cache when it is there and
  // loads, else from the compiler. Counted.
  Built build(std::string_view program);

private:
  std::string key(std::string_view program, const CompileOptions& options) const;
  std::shared_ptr<const Executable> load_cached(const std::string& key);

  std::shared_ptr<const Client> client_;
  size_t device_;
  EmitOptions emit_;
  CompileOptions compile_;
  Counters counters_;
  RunQueue runs_;
  ExecutableCache cache_;
  std::string library_; // library_identity of the plugin, when there is a cache
};

// Multiply-adds x 2 per second of a chain of large products with the engine's operand type and
// precision; the best of a few runs.
double measure_peak_flops(EngineState& state);

} // namespace dllm::pjrt
