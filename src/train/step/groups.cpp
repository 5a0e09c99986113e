// Parses option groups: groups of parameters with their own learning rate or weight decay.

#include "train/optimizer.h"

#include "base/error.h"
#include "base/number.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

namespace dllm::train {
namespace {

double group_number(const std::string& group, const std::string& word, size_t equals) {
  const std::optional<double> value = parse_number(std::string_view(word).substr(equals + 1));
  if (value && *value >= 0 && *value <= 10) return *value;
  fail(Code::invalid_argument, "group '{}': {} is not a number from 0 to 10", group, word);
}

ParameterGroup parse_group(const std::string& text, double lr) {
  std::istringstream words(text);
  ParameterGroup made;
  words >> made.pattern;
  bool any = false;
  for (std::string word; words >> word; any = true) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos || (key != "lr" && key != "weight_decay")) {
      fail_with_hint("write 'PATTERN lr=0.001 weight_decay=0'", Code::invalid_argument,
                     "group '{}': {} is neither lr= nor weight_decay=", text, word);
    }
    const double value = group_number(text, word, equals);
    if (key == "weight_decay") {
      made.rate.weight_decay = static_cast<float>(value);
    } else if (lr > 0) {
      made.rate.lr_factor = static_cast<float>(value / lr);
      made.has_lr = true;
    } else {
      fail_with_hint("set lr above 0, and freeze the tensors that must not change",
                     Code::invalid_argument,
                     "group '{}' has its own rate, which needs lr above 0, but lr is 0", text);
    }
  }
  if (!any) {
    fail_with_hint("write 'PATTERN lr=0.001 weight_decay=0'", Code::invalid_argument,
                   "group '{}' names neither lr nor weight_decay", text);
  }
  return made;
}

} // namespace

std::vector<ParameterGroup> parameter_groups(const Options& options) {
  std::vector<ParameterGroup> groups;
  for (const std::string& text : options.list("groups"))
    groups.push_back(parse_group(text, options.f64("lr")));
  return groups;
}

const ParameterGroup* find_group(const std::vector<ParameterGroup>& groups,
                                 const model::ParamSpec& parameter) {
  const auto found = std::ranges::find_if(groups, [&](const ParameterGroup& group) {
    return model::count_matches(group.pattern, parameter) > 0;
  });
  return found == groups.end() ? nullptr : &*found;
}

} // namespace dllm::train
