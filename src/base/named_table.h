#pragma once
// Rows that a user calls by a name. A table is any range of rows with a name in each: values,
// pointers or pairs. Every lookup that fails has the same sentence, there is no KIND named "NAME",
// and the same kind of hint.

#include "base/error.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {

// What was looked for, in the words of the error.
struct Lookup {
  std::string kind;        // "policy", "decoder option"
  std::string where = {};  // "in weights.safetensors"; "": the error names no place
  std::string advice = {}; // one more sentence of the hint
  Code code = Code::not_found;
};

// The known name with the fewest changed letters. "": more than half of the letters of every name
// differ.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Fails with `there is no <kind> named "<name>" <where>`. The hint gives the nearest name; without
// a near one it lists the known names, as long as the list is short enough to be read.
[[noreturn]] void fail_unnamed(const Lookup& lookup, std::string_view name,
                               const std::vector<std::string>& known);

// The name of an entry of a map, or of a pair.
struct EntryName {
  template <class Entry> const auto& operator()(const Entry& entry) const { return entry.first; }
};
inline constexpr EntryName kEntryName;

// The names of all rows, in the order of the table. name_of is a member or a function of a row.
template <std::ranges::input_range Table, class Name>
std::vector<std::string> names_of(const Table& table, Name name_of) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(std::invoke(name_of, row));
  return names;
}

// The row of that name; null: the table has none.
template <std::ranges::input_range Table, class Name>
auto find_named(const Table& table, std::string_view name, Name name_of) {
  const auto row = std::ranges::find_if(table, [&](const auto& entry) {
    return std::string_view(std::invoke(name_of, entry)) == name;
  });
  return row == std::ranges::end(table) ? nullptr : &*row;
}

// The row of that name. Fails as fail_unnamed does where the table has none.
template <std::ranges::input_range Table, class Name>
const auto& need_named(const Table& table, std::string_view name, Name name_of,
                       const Lookup& lookup) {
  if (const auto* row = find_named(table, name, name_of)) return *row;
  fail_unnamed(lookup, name, names_of(table, name_of));
}

} // namespace dllm
