#pragma once
// A graph compiled by a plugin, its report, and the arrays it reads and makes.

#include "base/error.h"
#include "graph/engine.h"
#include "pjrt/engine_state.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dllm::pjrt {

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
