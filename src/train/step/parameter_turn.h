#pragma once
// The turn of a step in the parameters of a model. Private to src/train.

#include "base/task.h"
#include "model/params/param_store.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

// The parameters of the model during one run. Parameters that the run writes are taken out of the
// store. They are returned when this object is destroyed, unless they are lost.
class ParameterTurn {
public:
  ParameterTurn(model::ParamStore& store, std::span<const size_t> written, const Task* task)
      : store_(store), written_(written) {
    returned_.reserve(written.size());
    buffers = store.take(written, task);
  }
  ~ParameterTurn() {
    if (lost_) {
      store_.lose(why_);
      return;
    }
    for (const size_t index : written_) returned_.push_back(std::move(buffers[index]));
    store_.put(written_, std::move(returned_), changed_);
    if (changed_ && written_.empty()) store_.bump();
  }
  ParameterTurn(const ParameterTurn&) = delete;
  ParameterTurn& operator=(const ParameterTurn&) = delete;

  void set_changed() { changed_ = true; }
  void set_lost(const std::string& why) {
    why_ = why;
    lost_ = true;
  }

  std::vector<graph::BufferRef> buffers; // by physical index

private:
  model::ParamStore& store_;
  std::span<const size_t> written_;
  std::vector<graph::BufferRef> returned_;
  std::string why_;
  bool changed_ = false, lost_ = false;
};

} // namespace dllm::train
