#include "names.h"

#include "base/nearest.h"
#include "dllm/registry.h"

#include <algorithm>

namespace dllm::cli {
std::string no_such(std::string_view kind, const std::string& name,
                    const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  return "there is no " + std::string(kind) + " named \"" + name + "\"" +
         (near.empty() ? "" : "; did you mean " + near + "?");
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string option_name(const std::string& kind, const std::string& key) {
  return dashed("--" + kind + "." + key);
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

std::vector<std::string> registry_names(const std::string& registry) {
  std::vector<std::string> names;
  for (int64_t i = 0; const char* name = dllm_registry_name(registry.c_str(), i); ++i)
    names.emplace_back(name);
  return names;
}

} // namespace dllm::cli
