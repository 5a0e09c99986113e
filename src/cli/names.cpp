#include "names.h"

#include "dllm/registry.h"

#include <algorithm>

namespace dllm::cli {
namespace {

// Returns the number of letters to insert, delete, replace, or swap with the next letter (optimal
// string alignment distance).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + other});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

} // namespace

std::string nearest(std::string_view typed, const std::vector<std::string>& known) {
  if (typed.size() > 200) return {};
  std::string best;
  size_t fewest = std::max<size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t far = distance(typed, name);
    if (far >= fewest) continue;
    fewest = far;
    best = name;
  }
  return best;
}

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
