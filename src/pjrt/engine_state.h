#pragma once
// What an engine is made of: the state shared by it, its programs and its arrays (counts, runs in progress, compiled
// programs), a graph compiled by a plugin with its report, and the arrays it reads and makes.

#include "base/error.h"
#include "base/options.h"
#include "graph/engine.h"
#include "pjrt/cache/executable_cache.h"
#include "pjrt/emit/emit.h"
#include "pjrt/plugin/client.h"
#include "pjrt/plugin/plugin.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
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

// Any number of threads may read. The one who donates it must be its only holder; the plugin's handle
// stays until the end, so a mistake there is an error and not a crash.
class DeviceBuffer final : public graph::Buffer {
public:
  // run: the launch it is a result of; null: it was uploaded.
  DeviceBuffer(std::shared_ptr<EngineState> state, DType dtype, Shape shape, Array array,
               std::shared_ptr<Run> run);
  ~DeviceBuffer() override;

  const Shape& shape() const override { return shape_; }
  DType dtype() const override { return dtype_; }
  // Row-major, on the host. A trip to the device: counted once for all results of one run, and once
  // for every read of an uploaded array. The first read of a result starts the transfers of the
  // run's other small results too. Fails with what the run failed with, and with
  // failed_precondition after donation.
  Tensor read(const Task* task = nullptr) const override;
  int64_t memory_bytes() const override;

  const EngineState* engine() const { return state_.get(); }
  const Array& array() const { return array_; }
  bool is_donated() const { return donated_.load(std::memory_order_acquire); }
  void mark_donated(); // a run took it over
  // Donated, deleted by the plugin, or of unknown state.
  bool is_gone() const noexcept;
  // Throws what is known of the run it comes from.
  void check_run() const;
  // Starts the transfer to the host unless it is under way or of no use.
  void prefetch() const noexcept;

private:
  struct Fetch {
    Tensor tensor;
    EventHandle done;
  };
  Fetch start_fetch() const;
  Fetch take_fetch() const;

  std::shared_ptr<EngineState> state_;
  DType dtype_;
  Shape shape_;
  Array array_;
  std::shared_ptr<Run> run_;
  int64_t bytes_;
  std::atomic<bool> donated_{false};
  mutable std::mutex mutex_;
  mutable std::optional<Fetch> fetch_; // begun by prefetch, taken by the next read
};

// Shares the tensor's storage where that is possible and `share` allows it, else copies.
std::shared_ptr<DeviceBuffer> upload(std::shared_ptr<EngineState> state, const Tensor& tensor,
                                     bool share);

// run() starts the work and returns; reading a result waits. A run that is cancelled was not
// started.
class PjrtProgram final : public graph::Program {
public:
  PjrtProgram(std::shared_ptr<EngineState> state, std::shared_ptr<const graph::Graph> source);

  const graph::Graph& graph() const override { return *source_; }
  const graph::PlanReport& plan() const override { return report_; }
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override;
  std::string text(std::string_view form) const override;

private:
  // The inputs of one run as the plugin takes them.
  struct Binding {
    std::vector<const Array*> arguments;
    std::vector<DeviceBuffer*> taken; // given up to the run
    std::vector<int64_t> kept;        // could be donated, but have another holder
  };

  std::string emitted() const;
  void check_results() const;
  DeviceBuffer& checked_input(const graph::BufferRef& buffer, size_t index) const;
  Binding bind(std::span<const graph::BufferRef> inputs) const;
  std::vector<graph::BufferRef> launch(const Binding& binding) const;
  std::vector<graph::BufferRef> wrap(std::vector<Array> results, bool took_state) const;
  [[noreturn]] void fail_launch(const Binding& binding, const Error& error) const;

  std::shared_ptr<EngineState> state_;
  std::shared_ptr<const graph::Graph> source_;
  std::vector<bool> donated_; // inputs that outputs take over
  std::shared_ptr<const Executable> executable_;
  graph::PlanReport report_;
  std::mutex running_;
};

// Report of the compiler on its program; seconds, from_cache and device_bytes are the caller's.
graph::CompiledReport compiler_report(const Compiled& compiled);
// Our own count of inputs and outputs, without a device's padding; the compiler's of the rest.
graph::PlanReport make_report(const graph::Graph& source, graph::CompiledReport compiled);
graph::PlanReport make_report(const graph::Graph& source, const Built& built, const Device& device);

// State must change in place: fails with internal when the compiler took over fewer bytes than the
// graph gives up, which would cost the memory of all parameters again. Plugins that report
// nothing are not checked.
void check_aliases(const graph::Graph& source, const graph::CompiledReport& compiled);

} // namespace dllm::pjrt
