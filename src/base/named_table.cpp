#include "base/named_table.h"

#include <fmt/ranges.h>

namespace dllm {
namespace {

// Longest list of names that a hint shows, in characters.
constexpr size_t kLongestList = 1200;

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

void fail_unnamed(const Lookup& lookup, std::string_view name,
                  const std::vector<std::string>& known) {
  constexpr size_t kShown = 120; // characters shown of a name; a name may be a whole file
  fail_with_hint(hint_of(lookup, name, known), lookup.code, "there is no {} named \"{}\"{}{}",
                 lookup.kind, name.substr(0, kShown), lookup.where.empty() ? "" : " ",
                 lookup.where);
}

} // namespace dllm
