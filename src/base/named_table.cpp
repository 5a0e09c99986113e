#include "base/named_table.h"

#include <fmt/ranges.h>

#include <numeric>

namespace dllm {
namespace {

// Longest word for which a nearest name is searched. A longer word is not a typing error, and
// computing its distances would be slow.
constexpr size_t kLongestWord = 256;
// Longest list of names that a hint shows, in characters.
constexpr size_t kLongestList = 1200;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] != b[j])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string hint_of(const Lookup& lookup, std::string_view name,
                    const std::vector<std::string>& known) {
  std::string hint;
  if (const std::string near = nearest(name, known); !near.empty()) {
    hint = fmt::format("did you mean {}?", near);
  } else if (std::string list = fmt::format("{}", fmt::join(known, ", "));
             !list.empty() && list.size() <= kLongestList) {
    hint = "the names are " + std::move(list);
    if (!lookup.advice.empty()) hint += ";";
  }
  if (!hint.empty() && !lookup.advice.empty()) hint += " ";
  return hint + lookup.advice;
}

} // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLongestWord) return {};
  // A name that differs in more than half of the letters does not help the reader.
  size_t best = std::max<size_t>(word.size() / 2, 1) + 1;
  std::string found;
  for (const std::string& name : known) {
    const size_t distance = edit_distance(word, name);
    // Of two names that are equally near, the beginning of the word is meant: json for "json~".
    const bool is_beginning = distance == best && !found.empty() && word.starts_with(name);
    if (distance >= best && !is_beginning) continue;
    best = distance;
    found = name;
  }
  return found;
}

void fail_unnamed(const Lookup& lookup, std::string_view name,
                  const std::vector<std::string>& known) {
  constexpr size_t kShown = 120; // characters shown of a name; a name may be a whole file
  fail_with_hint(hint_of(lookup, name, known), lookup.code, "there is no {} named \"{}\"{}{}",
                 lookup.kind, name.substr(0, kShown), lookup.where.empty() ? "" : " ",
                 lookup.where);
}

} // namespace dllm
