#include "model/adapters/kinds/adapter_kinds.h"

#include "base/error.h"
#include "base/named_table.h"
#include "model/adapters/kinds/kind_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

bool has_option(const AdapterKind& kind, const std::string& key) {
  return std::ranges::any_of(kind.options(),
                             [&](const OptionSpec& spec) { return spec.key == key; });
}

// Returns a tensor of any kind whose suffix ends the name; null: there is none.
const AdapterTensor* tensor_of_any_kind(std::string_view stack) {
  for (const AdapterKind* kind : adapter_kinds()) {
    if (const AdapterTensor* tensor = kind->find_tensor(stack)) return tensor;
  }
  return nullptr;
}

} // namespace

const AdapterNumbers::Entry* AdapterNumbers::find(std::string_view suffix) const {
  const auto found = entries.find(suffix);
  return found == entries.end() ? nullptr : &found->second;
}

const AdapterNumbers::Entry& AdapterNumbers::at(std::string_view suffix) const {
  const Entry* found = find(suffix);
  if (found == nullptr) fail(Code::internal, "a matrix of an adapter has no tensor {}", suffix);
  return *found;
}

const AdapterTensor* AdapterKind::find_tensor(std::string_view stack) const {
  const auto found = std::ranges::find_if(
      tensors, [&](const AdapterTensor& tensor) { return stack.ends_with(tensor.suffix); });
  return found == tensors.end() ? nullptr : &*found;
}

std::span<const AdapterKind* const> adapter_kinds() {
  return adapter_files::kTable;
}

const AdapterKind& find_adapter_kind(std::string_view name) {
  return *need_named(adapter_files::kTable, name, &AdapterKind::name, {"kind", "of adapters"});
}

bool is_adapter_tensor(std::string_view stack) {
  return tensor_of_any_kind(stack) != nullptr;
}

bool adapter_tensor_decays(std::string_view stack) {
  const AdapterTensor* tensor = tensor_of_any_kind(stack);
  return tensor != nullptr && tensor->decays;
}

bool adapter_tensor_is_up(std::string_view stack) {
  const AdapterTensor* tensor = tensor_of_any_kind(stack);
  return tensor != nullptr && tensor->is_up;
}

std::vector<OptionSpec> adapter_kind_options() {
  std::vector<OptionSpec> all;
  for (const AdapterKind* kind : adapter_kinds()) {
    for (OptionSpec& spec : kind->options()) {
      if (std::ranges::find(all, spec.key, &OptionSpec::key) != all.end()) continue;
      spec.group = kAdapterGroup;
      all.push_back(std::move(spec));
    }
  }
  return all;
}

const AdapterKind& chosen_adapter_kind(const Options& options) {
  const AdapterKind* kind = &find_adapter_kind(options.str("kind"));
  for (const AdapterKind* other : adapter_kinds()) {
    const bool is_of_type = std::string_view(other->peft.type) == kind->peft.type;
    if (other->flag != nullptr && is_of_type && options.boolean(other->flag)) kind = other;
  }
  const Json values = options.to_json(), defaults = Options(options.schema()).to_json();
  for (const OptionSpec& spec : adapter_kind_options()) {
    if (has_option(*kind, spec.key) || values.at(spec.key) == defaults.at(spec.key)) continue;
    fail_with_hint("leave it out, or choose another kind", Code::invalid_argument,
                   "adapters of kind {} have no option {}", kind->name, spec.key);
  }
  return *kind;
}

} // namespace dllm::model
