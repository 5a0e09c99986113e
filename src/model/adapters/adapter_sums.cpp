#include "model/adapters/adapter_sums.h"

#include "model/adapters/kinds/adapter_kinds.h"
#include "model/model.h"

#include <algorithm>

namespace dllm::model {
namespace {

constexpr std::string_view kBiasSuffix = ".bias"; // of stacks

Tensor transposed(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor made(DType::f32, {columns, rows});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      made.mutable_as<float>()[static_cast<size_t>(c * rows + r)] =
          matrix.as<float>()[static_cast<size_t>(r * columns + c)];
  }
  return made;
}

} // namespace

AdapterSums::AdapterSums(const Model& model, const std::vector<ParamStore::Physical>& entries,
                         const std::vector<std::string>& parts, const Task* task) {
  for (const std::string& part : parts) {
    const AdapterKind& kind = find_adapter_kind(model.parts().find(part)->settings.kind);
    for (const ParamStore::Physical& entry : entries) {
      if (entry.spec.part != part) continue;
      const std::string& name = entry.spec.name;
      const AdapterTensor* tensor = kind.find_tensor(name);
      if (tensor == nullptr) {
        if (entry.spec.factor != 0) copies_[name] = {entry.spec, entry.buffer->read(task)};
        continue;
      }
      std::vector<Change>& changes = changes_[name.substr(0, name.size() - tensor->suffix.size())];
      if (changes.empty() || changes.back().part != part) changes.push_back({part, &kind, {}});
      changes.back().stacks[tensor->suffix] = {entry.spec, entry.buffer->read(task)};
    }
  }
}

const std::vector<AdapterSums::Change>* AdapterSums::of_bias(const std::string& stack) const {
  if (!stack.ends_with(kBiasSuffix)) return nullptr;
  const auto found = changes_.find(stack.substr(0, stack.size() - kBiasSuffix.size()));
  if (found == changes_.end()) return nullptr;
  const bool has_any = std::ranges::any_of(
      found->second, [](const Change& change) { return change.kind->merge.bias != nullptr; });
  return has_any ? &found->second : nullptr;
}

bool AdapterSums::has(const std::string& stack) const {
  return changes_.contains(stack) || copies_.contains(stack) || of_bias(stack) != nullptr;
}

Tensor AdapterSums::sum(const ParamSpec& base, size_t piece, int64_t layer, const Tensor& matrix,
                        const Task* task) const {
  if (const auto copy = copies_.find(base.name); copy != copies_.end())
    return read_piece(copy->second.spec, piece, layer, copy->second.values);
  const std::vector<Change>* biased = of_bias(base.name);
  const bool is_turned = base.pieces[piece].transpose && biased == nullptr;
  const Tensor weight = is_turned ? transposed(matrix.to(DType::f32)) : matrix.to(DType::f32);
  Tensor made = weight.clone();
  for (const Change& change : biased != nullptr ? *biased : changes_.at(base.name)) {
    AdapterNumbers numbers{{}, task};
    for (const auto& [suffix, stack] : change.stacks) {
      numbers.entries[suffix] = {read_piece(stack.spec, piece, layer, stack.values),
                                 stack.spec.factor};
    }
    const AdapterMergeRow& merge = change.kind->merge;
    if (biased == nullptr)
      merge.weight(numbers, weight, made);
    else if (merge.bias != nullptr)
      merge.bias(numbers, weight, made);
  }
  return is_turned ? transposed(made) : made;
}

} // namespace dllm::model
