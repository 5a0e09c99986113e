// Merges adapters into the weights of a model.

#include "base/error.h"
#include "model/adapters/adapter.h"
#include "model/adapters/adapter_sums.h"
#include "model/adapters/kinds/adapter_kinds.h"

#include <string>
#include <vector>

namespace dllm::model {
namespace {

// Writes the sums of one stack, which is read once. Writes are collected and uploaded once.
void merge_stack(ParamStore& params, size_t index, const AdapterSums& sums, const Task* task) {
  const ParamSpec base = params.physical()[index].spec;
  const Tensor weights = params.widened(index, task);
  for (int64_t layer = 0; layer < base.copies(); ++layer) {
    for (size_t piece = 0; piece < base.pieces.size(); ++piece) {
      check_task(task);
      params.write(base.logical_name(base.pieces[piece], layer),
                   sums.sum(base, piece, layer, read_piece(base, piece, layer, weights), task));
    }
  }
}

void write_sums(Model& model, const std::vector<std::string>& parts, const Task* task) {
  ParamStore& params = model.params();
  const std::vector<ParamStore::Physical> all = params.entries(task);
  const AdapterSums sums(model, all, parts, task);
  for (size_t i = 0; i < all.size(); ++i) {
    const ParamStore::Physical& entry = all[i];
    if (entry.spec.part == kBasePart && entry.scale_of < 0 && sums.has(entry.spec.name))
      merge_stack(params, i, sums, task);
  }
}

void merge_parts(Model& model, const std::vector<std::string>& parts, const Task* task) {
  const Model::Backup before = model.backup();
  try {
    write_sums(model, parts, task);
    check_task(task);
    model.params().entries(); // uploads what was written
  } catch (...) {
    model.restore(before);
    throw;
  }
  for (const std::string& part : parts) model.drop_part(part);
}

} // namespace

void merge_adapter(Model& model, const std::string& name, const Task* task) {
  const std::string part = find_adapter(model, name)->name;
  for (const std::string& other : model.parts().adapters()) {
    const AdapterKind& kind = find_adapter_kind(model.parts().find(other)->settings.kind);
    if (other == part || kind.merge.reads_weights == nullptr) continue;
    fail_with_hint("save the model with option merge, which adds all adapters at once",
                   Code::failed_precondition,
                   "adapter {} is {}: {} the weights that a merge of {} changes",
                   adapter_name(other), kind.title, kind.merge.reads_weights, name);
  }
  merge_parts(model, {part}, task);
}

void merge_adapters(Model& model, const Task* task) {
  merge_parts(model, model.parts().adapters(), task);
}

} // namespace dllm::model
