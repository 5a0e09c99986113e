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
#include "pjrt/processes.h"
#include "pjrt/runs.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

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

// The devices of a mesh of ranks. A process has consecutive ranks on consecutive devices of its client: the first of them is
// device pjrt.device, on every process. "Here": of this process. Any thread.
class EngineState {
public:
  explicit EngineState(const Options& options, std::optional<comm::ProcessLink> link = {});
  ~EngineState() { runs_.drain(); }
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  const Client& client() const { return *devices_.client; }
  const Processes& processes() const { return processes_; }
  const graph::Mesh& mesh() const { return processes_.mesh(); } // of all ranks
  size_t ranks_here() const { return static_cast<size_t>(processes_.here().ranks()); }
  // Of the rank number `here` of this process.
  const Device& device(size_t here = 0) const { return client().devices()[devices_.first + here]; }
  bool on_cpu() const { return client().platform_name() == "cpu"; }
  const EmitOptions& emit_options() const { return emit_; }
  Counters& counters() { return counters_; }
  RunQueue& runs() { return runs_; }
  const ExecutableCache& cache() const { return cache_; }
  // Held while a run is started: all devices must meet runs in one order, or each would wait in another one's collective.
  std::mutex& starting() { return starting_; }

  // StableHLO text as an executable of one replica on each device of the mesh: from the cache when
  // it is there and loads, on all processes, else from the compiler. Counted.
  Built build(std::string_view program) { return build_with(program, compile_); }
  // The same for a program of the first device here alone.
  Built build_single(std::string_view program);

private:
  struct Devices {
    std::shared_ptr<const Client> client;
    size_t first = 0;         // of the ranks here
    std::vector<int64_t> ids; // by rank, of all processes
  };
  static Devices open_devices(const Options& options, const Processes& processes);
  Built build_with(std::string_view program, const CompileOptions& options);
  std::string key(std::string_view program, const CompileOptions& options) const;
  std::shared_ptr<const Executable> load_cached(const std::string& key);

  Processes processes_;
  EmitOptions emit_;
  Devices devices_;
  CompileOptions compile_;
  Counters counters_;
  RunQueue runs_;
  std::mutex starting_;
  ExecutableCache cache_;
  std::string library_; // library_identity of the plugin, when there is a cache
};

// Multiply-adds x 2 per second of a chain of large products with the engine's operand type and
// precision, on the first device; the best of a few runs.
double measure_peak_flops(EngineState& state);

// The parts of an array, one on each device here. Any number of threads may read. The one who donates it
// must be its only holder; the plugin's handles stay until the end, so a mistake there is an error
// and not a crash.
class DeviceBuffer final : public graph::Buffer {
public:
  struct Content {
    DType dtype = DType::f32;
    Shape shape;              // of one part
    std::vector<Array> parts; // by rank here
    graph::AxisSet differs;   // axes over which the parts are arrays of their own, not cut of one
  };
  // run: the launch it is a result of; null: it was uploaded.
  DeviceBuffer(std::shared_ptr<EngineState> state, Content content, std::shared_ptr<Run> run);
  ~DeviceBuffer() override;

  const Shape& shape() const override { return content_.shape; }
  DType dtype() const override { return content_.dtype; }
  // Row-major, on the host, the whole array. A trip to the device: counted once for all results of one run, and once
  // for every read of an uploaded array. The first read of a result starts the transfers of the
  // run's other small results too. Fails with what the run failed with, and with
  // failed_precondition after donation or where parts make no array.
  Tensor read(const Task* task = nullptr) const override;
  Tensor read_part(const Task* task = nullptr) const override;
  std::vector<Tensor> read_dealt(std::span<const int64_t> owners,
                                 const Task* task = nullptr) const override;
  int64_t memory_bytes() const override; // of the parts here

  const EngineState* engine() const { return state_.get(); }
  graph::AxisSet differs() const { return content_.differs; }
  const Array& array(size_t here = 0) const { return content_.parts[here]; }
  bool is_donated() const { return donated_.load(std::memory_order_acquire); }
  void mark_donated(); // a run took it over
  // Donated, deleted by the plugin on any device, or of unknown state.
  bool is_gone() const noexcept;
  // Throws what is known of the run it comes from.
  void check_run() const;
  // Starts the transfer to the host unless it is under way or of no use.
  void prefetch() const noexcept;

private:
  struct Fetch {
    std::vector<Tensor> parts; // by rank here; not defined where another one has the same
    std::vector<EventHandle> done;
  };
  int64_t bytes() const; // of the parts here
  std::vector<size_t> ranks_to_read() const;
  Fetch start_fetch() const;
  Fetch take_fetch() const;
  void expect_readable() const;

  std::shared_ptr<EngineState> state_;
  Content content_;
  std::shared_ptr<Run> run_;
  std::atomic<bool> donated_{false};
  mutable std::mutex mutex_;
  mutable std::optional<Fetch> fetch_; // begun by prefetch, taken by the next read
};

// Those of `axes` that have several ranks.
graph::AxisSet differing(const graph::Mesh& mesh, graph::AxisSet axes);

// A whole array, of which each rank gets its part. Shares the tensor's storage where that is
// possible and `share` allows it, else copies. Fails with invalid_argument where it cannot be cut.
std::shared_ptr<DeviceBuffer> upload(std::shared_ptr<EngineState> state, const Tensor& whole,
                                     bool share, const graph::Layout& layout = {});
// The part of this process, of which each rank here gets its part.
std::shared_ptr<DeviceBuffer> upload_part(std::shared_ptr<EngineState> state, const Tensor& part,
                                          bool share, const graph::Layout& layout);
// graph::Engine::upload_pieces.
std::shared_ptr<DeviceBuffer> upload_pieces(std::shared_ptr<EngineState> state,
                                            std::span<const Tensor> pieces, graph::AxisSet axes,
                                            bool share);

// run() starts the work on all devices and returns; reading a result waits. A run that is cancelled
// was not started.
class PjrtProgram final : public graph::Program {
public:
  PjrtProgram(std::shared_ptr<EngineState> state, std::shared_ptr<const graph::Graph> source);

  const graph::Graph& graph() const override { return *source_; }
  const graph::PlanReport& plan() const override { return report_; } // of one device
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override;
  std::string text(std::string_view form) const override;

private:
  // The inputs of one run as the plugin takes them.
  struct Binding {
    std::vector<std::vector<const Array*>> arguments; // by rank here, by input
    std::vector<DeviceBuffer*> taken;                 // given up to the run
    std::vector<int64_t> kept;                        // could be donated, but have another holder
    std::vector<const DeviceBuffer*> inputs;
  };

  std::string emitted() const;
  void check_results() const;
  void check_devices() const;
  DeviceBuffer& checked_input(const graph::BufferRef& buffer, size_t index) const;
  Binding bind(std::span<const graph::BufferRef> inputs) const;
  std::vector<graph::BufferRef> launch(const Binding& binding) const;
  std::vector<graph::BufferRef> wrap(std::vector<std::vector<Array>> results,
                                     const Binding& binding) const;
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
