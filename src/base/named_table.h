#pragma once
// Looks up the rows of a table by name. A table is any range whose rows have a name: values,
// pointers or pairs. Every failed lookup reports the same sentence, `there is no KIND named
// "NAME"`, with a hint.

#include "base/error.h"
#include "base/nearest.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {

// Describes a lookup for its error text.
struct Lookup {
  std::string kind;        // "policy", "decoder option"
  std::string where = {};  // "in weights.safetensors"; may be empty
  std::string advice = {}; // sentence added to the hint; may be empty
  Code code = Code::not_found;
};

// Fails with `there is no <kind> named "<name>" <where>`. The hint proposes the nearest name. If no
// name is near, the hint lists all names, unless the list is too long to read.
[[noreturn]] void fail_unnamed(const Lookup& lookup, std::string_view name,
                               const std::vector<std::string>& known);

// Returns the name of a pair or of an entry of a map: its first member.
struct EntryName {
  template <class Entry> const auto& operator()(const Entry& entry) const { return entry.first; }
};
inline constexpr EntryName kEntryName;

// Returns the names of all rows in the order of the table. name_of is a member or a function of a
// row.
template <std::ranges::input_range Table, class Name>
std::vector<std::string> names_of(const Table& table, Name name_of) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(std::invoke(name_of, row));
  return names;
}

// Returns a pointer to the row with that name, or null.
template <std::ranges::input_range Table, class Name>
auto find_named(const Table& table, std::string_view name, Name name_of) {
  const auto row = std::ranges::find_if(table, [&](const auto& entry) {
    return std::string_view(std::invoke(name_of, entry)) == name;
  });
  return row == std::ranges::end(table) ? nullptr : &*row;
}

// Returns the row with that name, or fails as fail_unnamed does.
template <std::ranges::input_range Table, class Name>
const auto& need_named(const Table& table, std::string_view name, Name name_of,
                       const Lookup& lookup) {
  if (const auto* row = find_named(table, name, name_of)) return *row;
  fail_unnamed(lookup, name, names_of(table, name_of));
}

} // namespace dllm
