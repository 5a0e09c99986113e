#pragma once
// A graph compiled by a plugin.

#include "base/error.h"
#include "graph/engine.h"
#include "pjrt/device_buffer.h"

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace dllm::pjrt {

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

} // namespace dllm::pjrt
