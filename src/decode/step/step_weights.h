#pragma once
// This class takes the weights of a step. All passes of a step use the same version. K and V of
// another version are dropped before the first pass.

#include "base/task.h"
#include "decode/cache/decode_state.h"
#include "decode/pass/pass_program.h"
#include "decode/slot/slot_list.h"
#include "model/model.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace dllm::decode {

class StepWeights {
public:
  // may_change: a step may have other weights than the one before (option on_change).
  // source: the model whose arrays `model` shares. It must keep its weights. It may be `model`.
  StepWeights(std::shared_ptr<model::Model> model, std::shared_ptr<model::Model> source,
              DecodeState& state, SlotList& slots, bool may_change);

  // Returns the weights for all passes of a step. Fails with failed_precondition if they changed
  // and may not change.
  Weights take(const Task* task);

private:
  // What K, V and predictions depend on.
  struct Versions {
    int64_t base = 0;
    struct Part {
      int64_t number, changes;
      float scale;
      model::PartKind kind;
      friend bool operator==(const Part&, const Part&) = default;
    };
    std::map<std::string, Part> parts; // the others, by name

    // Returns the parts other than the base that differ from `before`, came or went, and their
    // kinds.
    std::map<std::string, model::PartKind> changed(const Versions& before) const;
  };
  Versions versions() const;
  void check_source() const;
  void drop_state(const Versions& now);

  std::shared_ptr<model::Model> model_, source_;
  DecodeState& state_;
  SlotList& slots_;
  bool may_change_;
  int64_t source_version_;
  Weights weights_;   // of the last step, without the buffers
  Versions versions_; // of the weights that K and V were computed with
};

} // namespace dllm::decode
