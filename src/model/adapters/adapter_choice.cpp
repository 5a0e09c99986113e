#include "model/adapters/adapter_choice.h"

#include "base/error.h"
#include "model/files/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace dllm::model {
namespace {

// Returns the part of a module's name after the number of its layer. PEFT finds the module in every
// layer by this part: "model.layers.3.self_attn.q_proj" -> "self_attn.q_proj".
std::string end_of_module(const std::string& module) {
  for (size_t at = module.find('.'); at != std::string::npos; at = module.find('.', at + 1)) {
    size_t end = at + 1;
    while (end < module.size() && module[end] >= '0' && module[end] <= '9') ++end;
    if (end > at + 1 && end < module.size() && module[end] == '.') return module.substr(end + 1);
  }
  return module;
}

// "x.norm.weight" -> "x.norm"
std::string module_of(const std::string& tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

constexpr const char* kHeadName = "head"; // of dllm

// PEFT compares ends of names, without a dot before them.
bool is_saved_by(const std::string& word, const std::string& module, const std::string& own) {
  return !word.empty() && (module.ends_with(word) || own == word);
}

} // namespace

std::string tied_head_of(const ModelConfig& config) {
  const std::string tensor = own_head_name(config);
  return tensor.ends_with(".weight") ? module_of_weight(tensor) : std::string();
}

std::vector<AdapterChoice::Stack> AdapterChoice::stacks() const {
  std::vector<Stack> chosen;
  for (size_t i = 0; i < params_.physical().size(); ++i) {
    const ParamStore::Physical& entry = params_.physical()[i];
    if (entry.scale_of >= 0 || entry.spec.part != kBasePart) continue;
    Stack stack{i, {}};
    for (int64_t layer = 0; layer < entry.spec.copies(); ++layer)
      stack.layers.push_back(form_of(entry, layer));
    if (std::ranges::any_of(stack.layers, [](const LayerForm& l) { return l.use != Use::none; }))
      chosen.push_back(std::move(stack));
  }
  const auto is_changed = [](const Stack& stack) {
    return std::ranges::any_of(stack.layers,
                               [](const LayerForm& l) { return l.use == Use::changed; });
  };
  if (std::ranges::none_of(chosen, is_changed)) {
    fail_with_hint(matrices(), Code::not_found,
                   "the targets of the adapter choose no matrix of this model");
  }
  return chosen;
}

void AdapterChoice::check_words(int64_t layers) const {
  std::vector<AdapterTargets::Module> modules;
  for (const ParamStore::Physical& entry : params_.physical()) {
    if (entry.scale_of >= 0 || entry.spec.part != kBasePart) continue;
    for (int64_t layer = 0; layer < entry.spec.copies(); ++layer) {
      for (const ParamPiece& piece : entry.spec.pieces)
        modules.push_back({module_of_weight(entry.spec.logical_name(piece, layer)),
                           std::string(own_name(entry.spec))});
    }
  }
  options_.targets.check(modules, layers, matrices());
  if (!tied_head_.empty()) modules.push_back({tied_head_, kHeadName});
  for (const std::string& word : options_.settings.modules_to_save) {
    if (std::ranges::any_of(modules, [&](const AdapterTargets::Module& module) {
          return is_saved_by(word, module.name, module.own);
        }))
      continue;
    fail_with_hint("name embed_tokens, lm_head, norm or the end of another module", Code::not_found,
                   "modules_to_save \"{}\" names no module of this model", word);
  }
}

std::vector<std::string> AdapterChoice::saved_modules() const {
  std::set<std::string> modules;
  for (const ParamStore::Physical& entry : params_.physical()) {
    if (entry.scale_of >= 0 || entry.spec.part != kBasePart) continue;
    for (int64_t layer = 0; layer < entry.spec.copies(); ++layer) {
      if (form_of(entry, layer).use != Use::copied) continue;
      for (const ParamPiece& piece : entry.spec.pieces)
        modules.insert(module_of(entry.spec.logical_name(piece, layer)));
    }
  }
  return {modules.begin(), modules.end()};
}

bool AdapterChoice::saves(const std::string& stack) const {
  return std::ranges::any_of(params_.physical(), [&](const ParamStore::Physical& entry) {
    return entry.scale_of < 0 && entry.spec.part == kBasePart && entry.spec.name == stack &&
           is_saved(entry.spec, 0);
  });
}

std::set<int64_t> AdapterChoice::borders() const {
  std::set<int64_t> borders;
  for (const Stack& stack : stacks()) {
    const int64_t first = params_.physical()[stack.index].spec.first_layer;
    for (size_t i = 1; i < stack.layers.size(); ++i) {
      if (!(stack.layers[i] == stack.layers[i - 1]))
        borders.insert(first + static_cast<int64_t>(i));
    }
  }
  return borders;
}

template <class Visit> void AdapterChoice::each_module(const Visit& visit) const {
  for (const ParamStore::Physical& entry : params_.physical()) {
    if (entry.scale_of >= 0 || entry.spec.part != kBasePart) continue;
    for (int64_t layer = 0; layer < entry.spec.copies(); ++layer) {
      const LayerForm form = form_of(entry, layer);
      for (const ParamPiece& piece : entry.spec.pieces)
        visit(AdapterModule{module_of_weight(entry.spec.logical_name(piece, layer)),
                            std::string(own_name(entry.spec))},
              form);
    }
  }
}

void AdapterChoice::check_patterns() const {
  std::vector<AdapterModule> chosen;
  each_module([&](const AdapterModule& module, const LayerForm& form) {
    if (form.use == Use::changed) chosen.push_back(module);
  });
  const std::string unmatched = forms_.unmatched(chosen);
  if (unmatched.empty()) return;
  std::vector<std::string> texts;
  for (const AdapterWord& word : words()) texts.push_back(word.text);
  fail_with_hint("write the end of a module's name, as in q_proj or layers.0.self_attn.q_proj",
                 Code::not_found, "{} matches no module that the adapter changes: {}", unmatched,
                 fmt::join(texts, ", "));
}

std::vector<AdapterWord> AdapterChoice::words() const {
  struct End {
    std::vector<AdapterWord> chosen;
    bool has_others = false; // modules that are not chosen
  };
  std::map<std::string, End> ends;
  each_module([&](const AdapterModule& module, const LayerForm& form) {
    End& end = ends[end_of_module(module.name)];
    if (form.use == Use::changed)
      end.chosen.push_back({module.name, form.form.variant});
    else
      end.has_others = true;
  });
  std::vector<AdapterWord> words;
  for (const auto& [text, end] : ends) {
    if (end.chosen.empty()) continue;
    const int variant = end.chosen.front().variant;
    const bool is_one = std::ranges::all_of(
        end.chosen, [&](const AdapterWord& word) { return word.variant == variant; });
    if (end.has_others || !is_one)
      words.insert(words.end(), end.chosen.begin(), end.chosen.end());
    else
      words.push_back({text, variant});
  }
  return words;
}

bool AdapterChoice::is_saved(const ParamSpec& spec, int64_t layer) const {
  const auto is_named = [&](const std::string& module, const std::string& own) {
    return std::ranges::any_of(options_.settings.modules_to_save, [&](const std::string& word) {
      return is_saved_by(word, module, own);
    });
  };
  if (spec.name == "embedding" && !tied_head_.empty() && is_named(tied_head_, kHeadName))
    return true;
  size_t count = 0;
  for (const ParamPiece& piece : spec.pieces) {
    const std::string module = module_of(spec.logical_name(piece, layer));
    count += is_named(module, std::string(own_name(spec))) ? 1 : 0;
  }
  if (count > 0 && count != spec.pieces.size()) {
    fail_with_hint("name all experts of a layer", Code::unimplemented,
                   "modules_to_save names {} of the {} experts of {}", count, spec.pieces.size(),
                   spec.name);
  }
  return count > 0;
}

AdapterChoice::LayerForm AdapterChoice::form_of(const ParamStore::Physical& entry,
                                                int64_t layer) const {
  const ParamSpec& spec = entry.spec;
  if (is_saved(spec, layer)) return {Use::copied, {}};
  size_t count = 0;
  std::string module;
  for (const ParamPiece& piece : spec.pieces) {
    const std::string name = spec.logical_name(piece, layer);
    if (!name.ends_with(".weight")) continue;
    if (!options_.targets.has(spec, module_of_weight(name))) continue;
    module = module_of_weight(name);
    ++count;
  }
  if (count == 0) return {};
  const bool is_matrix = spec.role == ParamRole::weight && spec.layers > 0 &&
                         (spec.element.rank() == 3 || spec.pieces.size() == 1);
  if (!is_matrix)
    fail(Code::unimplemented, "{} is not a matrix of a layer, so it cannot have an adapter",
         module);
  if (kind_.graph.experts == nullptr && spec.element.rank() == 3) {
    fail_with_hint(std::string(kind_.leave_out) + ", or exclude the experts", Code::unimplemented,
                   "{} is a matrix of experts, and {} is for single matrices", module, kind_.title);
  }
  if (count != spec.pieces.size()) {
    fail_with_hint("choose all experts of a layer, with * for their numbers", Code::unimplemented,
                   "{} of the {} experts of {} are chosen: adapters of some experts are not "
                   "supported",
                   count, spec.pieces.size(), entry.name);
  }
  return {Use::changed, forms_.form({module, std::string(own_name(spec))})};
}

std::string AdapterChoice::matrices() const {
  std::set<std::string> words;
  for (const ParamStore::Physical& entry : params_.physical()) {
    const ParamSpec& spec = entry.spec;
    if (spec.part != kBasePart || spec.role != ParamRole::weight || spec.layers == 0) continue;
    const std::string module = module_of_weight(spec.logical_name(spec.pieces[0], 0));
    words.insert(module.substr(module.rfind('.') + 1));
  }
  return fmt::format("its matrices are {}", fmt::join(words, ", "));
}

} // namespace dllm::model
