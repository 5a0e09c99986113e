#pragma once
// An array of the PJRT engine.

#include "graph/engine.h"
#include "pjrt/engine_state.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

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

// Lends the tensor's storage where that is possible and `share` allows it, else copies.
std::shared_ptr<DeviceBuffer> upload(std::shared_ptr<EngineState> state, const Tensor& tensor,
                                     bool share);

} // namespace dllm::pjrt
