#pragma once
// The buffers of one run of a program.

#include "graph/engine.h"
#include "tensor/batch.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::runtime {

// Every input gets its buffer in one of two ways. Shared: the program reads it. Lent: it leaves the place where its
// owner keeps it, because an engine writes in place only where there is no other holder; the output that takes it over
// comes back to that place. Lent buffers are back when run() returns or throws, and when this object is destroyed
// without a run. After graph::StateLost they hold undefined numbers: their owner must mark them lost.
class Arguments {
 public:
  explicit Arguments(std::shared_ptr<graph::Program> program);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Index of a named input; fails with internal when the program has none.
  size_t input(std::string_view name) const;

  void share(size_t input, graph::BufferRef buffer);
  // home: outlives this object, and is null until the buffer is back. Never fails.
  void lend(size_t input, graph::BufferRef& home) noexcept;
  // Shares one buffer with every input that is a parameter, in order. Fails with failed_precondition when the program
  // was compiled for another number of parameters.
  void share_parameters(std::span<const graph::BufferRef> buffers);
  // Uploads the array of its name for every input that has no buffer yet ("batch:<name>" means <name>). The arrays must
  // not change until the run is over.
  void upload(graph::Engine& engine, const Batch& arrays);

  // Runs once. Outputs in the order of the graph; null where an output went back to the owner of a lent buffer.
  std::vector<graph::BufferRef> run(const Task* task = nullptr, graph::StopRule rule = graph::StopRule::anywhere);
  // Runs once more to name the first operation that makes NaN or infinity, as graph::Program::find_non_finite.
  std::string find_non_finite(const Task* task = nullptr);

 private:
  void give_back() noexcept;

  std::shared_ptr<graph::Program> program_;
  std::vector<graph::BufferRef> buffers_;   // by input
  std::vector<graph::BufferRef*> homes_;    // by input; null: not lent
};

}  // namespace dllm::runtime
