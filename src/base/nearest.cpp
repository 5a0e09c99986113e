#include "base/nearest.h"

#include <algorithm>

namespace dllm {
namespace {

// Longest word for which a nearest name is searched. A longer word is not a typing error, and
// computing its distances would be slow.
constexpr size_t kLongestWord = 256;

// Returns the number of changes between two words (optimal string alignment distance).
size_t changes_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + other});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

} // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLongestWord) return {};
  // A name that differs in more than half of the letters does not help the reader.
  size_t best = std::max<size_t>(word.size() / 2, 1) + 1;
  std::string found;
  for (const std::string& name : known) {
    const size_t distance = changes_between(word, name);
    // Of two names that are equally near, the beginning of the word is meant: json for "json~".
    const bool is_beginning = distance == best && !found.empty() && word.starts_with(name);
    if (distance >= best && !is_beginning) continue;
    best = distance;
    found = name;
  }
  return found;
}

} // namespace dllm
