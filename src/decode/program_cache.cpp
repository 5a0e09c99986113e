#include "decode/program_cache.h"

#include "base/error.h"

namespace dllm::decode {

std::vector<graph::BufferRef> program_inputs(const graph::Program& program, model::Model& model,
                                             const Weights& weights, const Batch& arrays,
                                             StateBuffers kept) {
  const auto& wanted = program.graph().inputs();
  const auto count = std::count_if(wanted.begin(), wanted.end(),
                                   [](const graph::GraphInput& input) { return input.is_parameter; });
  if (count != static_cast<int64_t>(weights.buffers.size())) {
    fail_with_hint("make a new decoder after the trainer", Code::failed_precondition,
                   "the model has {} arrays of parameters, had {} when the step was compiled",
                   weights.buffers.size(), count);
  }
  std::vector<graph::BufferRef> inputs;
  size_t next_parameter = 0, next_state = 0;
  for (const graph::GraphInput& input : wanted) {
    if (input.is_parameter)
      inputs.push_back(weights.buffers[next_parameter++]);
    else if (input.name.starts_with("state:"))
      inputs.push_back(std::move(kept.at(next_state++)));
    else
      inputs.push_back(model.engine().upload(arrays.at(input.name), true));
  }
  return inputs;
}

} // namespace dllm::decode
