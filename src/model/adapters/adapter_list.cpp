#include "model/adapters/adapter_list.h"

#include "base/error.h"
#include "base/number.h"
#include "model/adapters/adapter.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace dllm::model {
namespace {

constexpr const char* kNone = "none";

double read_weight(const std::string& word, size_t colon) {
  if (colon == std::string::npos) return 1;
  const std::optional<double> weight = parse_number(word.substr(colon + 1));
  if (!weight || !std::isfinite(*weight) || std::abs(*weight) > 1e9) {
    fail_with_hint("write NAME or NAME:WEIGHT, as math:0.7", Code::invalid_argument,
                   "adapters: '{}' has a weight that is not a number of -1e9 to 1e9",
                   word.substr(0, 60));
  }
  return *weight;
}

} // namespace

std::vector<AdapterUse> read_adapter_uses(const std::vector<std::string>& words) {
  std::vector<AdapterUse> choices;
  if (words.size() == 1 && words[0] == kNone) return choices;
  for (const std::string& word : words) {
    const size_t colon = word.find(':');
    AdapterUse choice{word.substr(0, colon), read_weight(word, colon)};
    if (choice.name.empty() || choice.name == kNone) {
      fail_with_hint("write none alone, or a list of NAME and NAME:WEIGHT", Code::invalid_argument,
                     "adapters: '{}' names no adapter", word.substr(0, 60));
    }
    if (std::ranges::find(choices, choice.name, &AdapterUse::name) != choices.end()) {
      fail_with_hint("add both weights", Code::invalid_argument, "adapters: {} is there twice",
                     choice.name);
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

PartList parts_of(const Model& model, const std::vector<AdapterUse>& choices) {
  PartList parts;
  for (const AdapterUse& choice : choices) {
    const std::shared_ptr<const Part> part = find_adapter(model, choice.name);
    check_weight(*part, choice.weight);
    if (choice.weight != 0) parts.add(part->name, choice.weight);
  }
  return parts;
}

} // namespace dllm::model
