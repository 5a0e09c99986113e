#pragma once
// An engine consists of programs (PjrtProgram), arrays (DeviceBuffer) and the state that they share
// (EngineState).

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
  std::atomic<int64_t> cache_hits{0};  // programs that were loaded from disk instead
  std::atomic<int64_t> round_trips{0}; // waits of the host for numbers: see DeviceBuffer::read
  std::atomic<int64_t> live_bytes{0};  // bytes of the arrays that are alive
  std::atomic<int64_t> peak_bytes{0};  // the most that live_bytes has been

  void add_bytes(int64_t bytes);
  void remove_bytes(int64_t bytes) { live_bytes.fetch_sub(bytes, std::memory_order_relaxed); }
};

// A program that was compiled or loaded from the cache.
struct Built {
  std::shared_ptr<const Executable> executable;
  bool from_cache = false;
  double seconds = 0;
};

// The devices of a mesh of ranks. A process has consecutive ranks on consecutive devices of its
// client, beginning with device pjrt.device. In names and comments "here" means "of this process".
// Any thread.
class EngineState {
public:
  explicit EngineState(const Options& options, std::optional<comm::ProcessLink> link = {});
  ~EngineState() { runs_.drain(); }
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  const Client& client() const { return *devices_.client; }
  const Processes& processes() const { return processes_; }
  // The mesh of the ranks of all processes.
  const graph::Mesh& mesh() const { return processes_.mesh(); }
  size_t ranks_here() const { return static_cast<size_t>(processes_.here().ranks()); }
  // The device of rank number `here` of this process.
  const Device& device(size_t here = 0) const { return client().devices()[devices_.first + here]; }
  bool on_cpu() const { return client().platform_name() == "cpu"; }
  const EmitOptions& emit_options() const { return emit_; }
  Counters& counters() { return counters_; }
  RunQueue& runs() { return runs_; }
  const ExecutableCache& cache() const { return cache_; }
  // Held while a run is started. All devices must receive the runs in the same order; otherwise two
  // devices would wait for each other in the collectives of different runs.
  std::mutex& starting() { return starting_; }

  // Returns StableHLO text as an executable with one replica on each device of the mesh. Loads the
  // executable from the cache if every process can, else compiles it. Counts it in counters().
  Built build(std::string_view program) { return build_with(program, compile_); }
  // Builds a program for the first device of this process alone.
  Built build_single(std::string_view program);

private:
  struct Devices {
    std::shared_ptr<const Client> client;
    size_t first = 0;         // index in the client's devices of the first rank here
    std::vector<int64_t> ids; // device ids of the ranks of all processes, by rank
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
  std::string library_; // library_identity of the plugin; "" without a cache
};

// Measures the flops per second of one device (a multiply-add counts as 2). Runs a chain of large
// products with the engine's operand type and precision on the first device and takes the best of a
// few runs.
double measure_peak_flops(EngineState& state);

// An array with one part on each device of this process. Any number of threads may read it. A run
// takes the array over only if the caller's reference is the only one. The plugin's handles live as
// long as the object, so a use after donation is an error and not a crash.
class DeviceBuffer final : public graph::Buffer {
public:
  struct Content {
    DType dtype = DType::f32;
    Shape shape;              // shape of one part
    std::vector<Array> parts; // by rank here
    graph::AxisSet differs;   // axes over which the parts are different arrays, not cuts of one
    const WeightFormat* format = nullptr; // of a weight in blocks
  };
  // run: the run that computes the array; null for an uploaded array.
  DeviceBuffer(std::shared_ptr<EngineState> state, Content content, std::shared_ptr<Run> run);
  ~DeviceBuffer() override;

  const Shape& shape() const override { return content_.shape; }
  DType dtype() const override { return content_.dtype; }
  // Returns the whole array on the host, row-major. Counts one round trip for all results of one
  // run, and one for every read of an uploaded array. The first read of a result also starts the
  // transfers of the run's other small results. Fails with the error of the run. Fails with
  // failed_precondition after donation, and where `differs` is not empty.
  Tensor read(const Task* task = nullptr) const override;
  Tensor read_part(const Task* task = nullptr) const override;
  std::vector<Tensor> read_dealt(std::span<const int64_t> owners,
                                 const Task* task = nullptr) const override;
  // Returns the device bytes of the parts here; 0 after donation.
  int64_t memory_bytes() const override;

  const EngineState* engine() const { return state_.get(); }
  const WeightFormat* format() const { return content_.format; }
  graph::AxisSet differs() const { return content_.differs; }
  const Array& array(size_t here = 0) const { return content_.parts[here]; }
  bool is_donated() const { return donated_.load(std::memory_order_acquire); }
  void mark_donated(); // called when a run has taken the array over
  // Returns true if the array was donated, the plugin deleted a part, or the state is unknown.
  bool is_gone() const noexcept;
  // Throws the error of the run that computes the array, if the run is known to have failed.
  void check_run() const;
  // Starts the transfer to the host. Does nothing for an array that is being transferred, large,
  // empty, donated, or different from rank to rank.
  void prefetch() const noexcept;

private:
  struct Fetch {
    std::vector<Tensor> parts; // by rank here; undefined for a copy of another rank's part
    std::vector<EventHandle> done;
  };
  int64_t bytes() const; // bytes of the parts here, without padding
  std::vector<size_t> ranks_to_read() const;
  Fetch start_fetch() const;
  Fetch take_fetch() const;
  void expect_readable() const;

  std::shared_ptr<EngineState> state_;
  Content content_;
  std::shared_ptr<Run> run_;
  std::atomic<bool> donated_{false};
  mutable std::mutex mutex_;
  mutable std::optional<Fetch> fetch_; // set by prefetch, taken by the next read
};

// Returns the axes among `axes` that have several ranks.
graph::AxisSet differing(const graph::Mesh& mesh, graph::AxisSet axes);

// Uploads to each rank its part of a whole array. Shares the tensor's storage where the plugin can
// and `share` allows it, else copies. Fails with invalid_argument for an array that `layout` cannot
// cut.
std::shared_ptr<DeviceBuffer> upload(std::shared_ptr<EngineState> state, const Tensor& whole,
                                     bool share, const graph::Layout& layout = {});
// Uploads the part of this process: each rank here gets its part of `part`.
std::shared_ptr<DeviceBuffer> upload_part(std::shared_ptr<EngineState> state, const Tensor& part,
                                          bool share, const graph::Layout& layout);
// Implements graph::Engine::upload_pieces.
std::shared_ptr<DeviceBuffer> upload_pieces(std::shared_ptr<EngineState> state,
                                            std::span<const Tensor> pieces, graph::AxisSet axes,
                                            bool share);

// A graph that the plugin compiled. run() starts the work on all devices and returns; reading a
// result waits for it. A call that fails as cancelled has not started a run.
class PjrtProgram final : public graph::Program {
public:
  PjrtProgram(std::shared_ptr<EngineState> state, std::shared_ptr<const graph::Graph> source);

  const graph::Graph& graph() const override { return *source_; }
  // Returns the memory plan of one device.
  const graph::PlanReport& plan() const override { return report_; }
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override;
  std::string text(std::string_view form) const override;

private:
  // The inputs of one run in the form of the plugin.
  struct Binding {
    std::vector<std::vector<const Array*>> arguments; // by rank here, by input
    std::vector<DeviceBuffer*> taken;                 // inputs donated to the run
    std::vector<int64_t> kept; // inputs not donated, because another reference exists
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

// Returns the compiler's report on its program. The caller sets seconds, from_cache and
// device_bytes.
graph::CompiledReport compiler_report(const Compiled& compiled);
// Returns the plan of a graph. Bytes of inputs and outputs are computed from the graph, without the
// padding of a device; the other numbers are the compiler's.
graph::PlanReport make_report(const graph::Graph& source, graph::CompiledReport compiled);
graph::PlanReport make_report(const graph::Graph& source, const Built& built, const Device& device);

// Checks that state changes in place. Fails with internal if the outputs of the program reuse fewer
// bytes of inputs than the graph donates: the parameters would need their memory twice. Does not
// check plugins that report no sizes.
void check_aliases(const graph::Graph& source, const graph::CompiledReport& compiled);

} // namespace dllm::pjrt
