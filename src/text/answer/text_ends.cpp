#include "text/answer/text_ends.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace dllm::text {
namespace {

const std::vector<TextEndKind>& end_kinds() {
  static const std::vector<TextEndKind> all = [] {
    std::vector<TextEndKind> made;
    for (const auto& kind : text_end_files::kTable) {
      made.push_back(kind());
      made.back().option.group = "end";
    }
    return made;
  }();
  return all;
}

std::string key_of(const TextEndKind& end, EndsOf kind) {
  return kind == EndsOf::answer ? end.option.key : end.request_key;
}

// Returns true for an option whose value is not the default.
bool is_used(const Options& options, const std::string& key) {
  return options.is_set(key) &&
         options.to_json().at(key) != Options(options.schema()).to_json().at(key);
}

} // namespace

std::vector<OptionSpec> end_options(EndsOf kind) {
  std::vector<OptionSpec> options;
  for (const TextEndKind& end : end_kinds()) {
    OptionSpec option = end.option;
    option.key = key_of(end, kind);
    if (kind == EndsOf::request && option.sentence.ends_with('.')) {
      option.sentence.pop_back();
      option.sentence += "; not for infill.";
    }
    options.push_back(std::move(option));
  }
  return options;
}

std::vector<std::string> used_ends(const Options& options, EndsOf kind) {
  std::vector<std::string> keys;
  for (const TextEndKind& end : end_kinds()) {
    if (std::string key = key_of(end, kind); is_used(options, key)) keys.push_back(std::move(key));
  }
  return keys;
}

TextEnds::TextEnds(const Options& options, EndsOf kind) {
  for (const TextEndKind& end : end_kinds()) {
    const std::string key = key_of(end, kind);
    if (is_used(options, key)) ends_.push_back(end.make(options, key));
  }
}

size_t TextEnds::find(std::string_view text, size_t from) const {
  std::optional<TextCut> first;
  for (const auto& end : ends_) {
    const std::optional<TextCut> cut = end->find(text, from);
    if (!cut) continue;
    if (!first || std::pair(cut->known, cut->at) < std::pair(first->known, first->at)) first = cut;
  }
  return first ? first->at : std::string_view::npos;
}

size_t TextEnds::held(std::string_view text, size_t from) const {
  size_t most = 0;
  for (const auto& end : ends_) most = std::max(most, end->held(text, from));
  return most;
}

} // namespace dllm::text
