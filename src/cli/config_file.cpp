#include "option_list.h"

#include "session.h"

#include <algorithm>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// "3:14" of a byte of a text.
std::string place_of(const std::string& text, size_t byte) {
  const size_t end = std::min(byte, text.size());
  const auto begin = text.begin(), at = begin + static_cast<std::ptrdiff_t>(end);
  const auto line = std::count(begin, at, '\n') + 1;
  const size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  return std::to_string(line) + ":" +
         std::to_string(before == std::string::npos ? end + 1 : end - before);
}

std::string word_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

} // namespace

ConfigFile::ConfigFile(const std::string& path) : path_(path), root_(Json::object()) {
  if (path_.empty()) return;
  const std::string text = read_all(path_);
  try {
    root_ = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::string what = error.what();
    const size_t detail = what.rfind(": ");
    throw UsageFailure(
        path_ + ":" + place_of(text, error.byte == 0 ? 0 : error.byte - 1) +
        " is no JSON: " + (detail == std::string::npos ? what : what.substr(detail + 2)));
  }
  if (!root_.is_object())
    throw UsageFailure(path_ + " holds " + root_.type_name() + ", not a JSON object");
}

std::string ConfigFile::text(const std::string& kind, const std::string& key) const {
  if (root_.contains(key) && root_[key].is_string()) return root_[key].get<std::string>();
  if (!root_.contains(kind) || !root_[kind].is_object()) return {};
  const Json& values = root_[kind];
  return values.contains(key) && values[key].is_string() ? values[key].get<std::string>()
                                                         : std::string();
}

std::vector<Setting> ConfigFile::settings(const OptionList& list,
                                          const std::map<std::string, std::string>& kinds) const {
  std::vector<Setting> found;
  for (const auto& [name, value] : root_.items()) {
    const std::string shown = path_ + ": " + name;
    if (kinds.count(name) != 0 && value.is_object()) {
      found.push_back({name, "", "json", value.dump(), shown});
      continue;
    }
    const auto& all = list.all();
    const auto option = std::find_if(all.begin(), all.end(), [&, &wanted = name](const Option& o) {
      return (!o.argument.empty() && o.argument == wanted) ||
             std::find(o.names.begin(), o.names.end(), "--" + wanted) != o.names.end();
    });
    if (option == all.end() || name == "config" || name == "help") {
      std::vector<std::string> known;
      for (const auto& [base, full] : kinds) known.push_back(base);
      for (const Option& o : all) {
        if (!o.names.empty())
          known.push_back(o.names.back().substr(o.names.back().find_first_not_of('-')));
      }
      const std::string near = nearest(name, known);
      throw UsageFailure(path_ + ": this command has no option \"" + name + "\"",
                         near.empty() ? "" : "did you mean " + near + "?");
    }
    if (!option->argument.empty()) {
      if (value.is_structured() || value.is_null()) {
        throw UsageFailure(shown + " takes a " + option->type + ", not " + value.type_name());
      }
      found.push_back({"", option->argument, option->type, word_of(value), shown});
      continue;
    }
    for (const Target& target : option->targets)
      found.push_back({target.kind, target.key, "json", value.dump(), shown});
  }
  return found;
}

} // namespace dllm::cli
