#include "decode/pass/part_layouts.h"

#include "base/error.h"
#include "base/sha256.h"
#include "model/adapters/kinds/adapter_kinds.h"

#include <algorithm>
#include <vector>

namespace dllm::decode {
namespace {

// Returns one line with everything that a graph takes from an entry.
std::string line_of(const model::ParamStore::Physical& entry) {
  return fmt::format("{} {} {} {} {} {} {}\n", model::split_name(entry.name).second, entry.spec.use,
                     entry.shape.text(), entry.part.text(), dtype_name(entry.dtype),
                     entry.format->name, entry.spec.factor);
}

} // namespace

PartLayouts::PartLayouts(const model::Model& model) {
  std::map<std::string, std::string> texts;
  for (const std::string& network : model.parts().networks())
    texts[network] = fmt::format("{}\n", model.parts().find(network)->number);
  for (const std::string& adapter : model.parts().adapters())
    texts[adapter] = model.parts().find(adapter)->settings.kind + "\n";
  const std::vector<model::ParamStore::Physical>& physical = model.params().physical();
  for (size_t i = 0; i < physical.size(); ++i) {
    const model::ParamStore::Physical& entry = physical[i];
    layouts_.try_emplace(entry.spec.part, Layout{i, {}});
    texts[entry.spec.part] += line_of(entry);
  }
  for (auto& [part, layout] : layouts_) layout.digest = hex(sha256(texts[part]));
  for (const std::string& adapter : model.parts().adapters()) {
    const auto found = layouts_.find(adapter);
    if (found == layouts_.end()) continue;
    const model::AdapterKind& kind =
        model::find_adapter_kind(model.parts().find(adapter)->settings.kind);
    found->second.is_by_row =
        kind.graph.by_row != nullptr && std::ranges::all_of(physical, [&](const auto& entry) {
          return entry.spec.part != adapter ||
                 (kind.find_tensor(entry.spec.name) != nullptr && entry.spec.element.rank() == 2);
        });
  }
}

bool PartLayouts::may_differ(const model::PartList& list) const {
  const std::vector<std::string>& names = list.names();
  if (names.front() != model::kBasePart || names.size() > 2) return false;
  if (names.size() == 1) return true;
  const auto found = layouts_.find(names[1]);
  return found != layouts_.end() && found->second.is_by_row && list.weight(names[1]) == 1;
}

std::string PartLayouts::of(const model::PartList& list) const {
  std::vector<size_t> firsts;
  for (const std::string& part : list.names()) {
    const auto found = layouts_.find(part);
    if (found == layouts_.end()) {
      fail_with_hint("add it again, or remove the request", Code::not_found,
                     "the model has no part {} any more", part);
    }
    firsts.push_back(found->second.first);
  }
  std::string text;
  for (size_t i = 0; i < firsts.size(); ++i) {
    // Buffers come in the order of the model, and products in the order of the list.
    const auto place = std::ranges::count_if(firsts, [&](size_t at) { return at < firsts[i]; });
    const std::string& part = list.names()[i];
    text += fmt::format("{}@{}*{} ", layouts_.at(part).digest, place, list.weight(part));
  }
  return text;
}

} // namespace dllm::decode
