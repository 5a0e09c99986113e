#include "decode/program_cache.h"

namespace dllm::decode {

std::vector<graph::BufferRef> program_inputs(const graph::Program& program, model::Model& model,
                                             const Batch& arrays, KvBuffers kept) {
  const std::vector<graph::BufferRef> parameters = model.params().snapshot();
  std::vector<graph::BufferRef> inputs;
  size_t next_parameter = 0;
  for (const graph::GraphInput& input : program.graph().inputs()) {
    if (input.is_parameter)
      inputs.push_back(parameters[next_parameter++]);
    else if (input.name == "keys")
      inputs.push_back(std::move(kept.keys));
    else if (input.name == "values")
      inputs.push_back(std::move(kept.values));
    else
      inputs.push_back(model.engine().upload(arrays.at(input.name), true));
  }
  return inputs;
}

} // namespace dllm::decode
