#pragma once
// The last few compiled programs, and how one gets its inputs.

#include "decode/decode_state.h"
#include "graph/engine.h"
#include "model/model.h"
#include "tensor/batch.h"

#include <algorithm>
#include <list>
#include <memory>
#include <utility>
#include <vector>

namespace dllm::decode {

// Most recently used first. One call at a time.
template <class Shape> class ProgramCache {
public:
  // make() -> std::shared_ptr<graph::Program>, where there is none of this shape.
  template <class Make> std::shared_ptr<graph::Program> get(const Shape& shape, Make make) {
    const auto found = std::find_if(programs_.begin(), programs_.end(),
                                    [&](const auto& entry) { return entry.first == shape; });
    if (found != programs_.end()) {
      programs_.splice(programs_.begin(), programs_, found);
    } else {
      programs_.emplace_front(shape, make());
      if (programs_.size() > kPrograms) programs_.pop_back();
    }
    return programs_.front().second;
  }
  void clear() { programs_.clear(); }

private:
  static constexpr size_t kPrograms = 12;
  std::list<std::pair<Shape, std::shared_ptr<graph::Program>>> programs_;
};

// The parameters of one version, in the order of the ParamStore.
struct Weights {
  std::vector<graph::BufferRef> buffers;
  int64_t version = 0;
};

// The program's inputs in its order: parameters, the buffers of the state ("state:..."), the arrays by name.
std::vector<graph::BufferRef> program_inputs(const graph::Program& program, model::Model& model,
                                             const Weights& weights, const Batch& arrays,
                                             StateBuffers kept);

} // namespace dllm::decode
