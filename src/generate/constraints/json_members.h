#pragma once
// The patterns of the members of an object and of the items of an array, by how many there may be.

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::generate {

// How often a part comes; most -1: any number of times.
struct Times {
  int64_t least = 0, most = -1;

  bool may_be(int64_t count) const { return most < 0 || count <= most; }
  Times after(int64_t count) const; // the times that are left
  std::string pattern() const;      // "{2,5}"
};

struct JsonMember {
  std::string pattern; // of name and value
  bool is_required = false;
};

// Returns the pattern of `members` in this order, and of any number of members `free` after them
// ("": none). It has commas and no braces. count: how many members there are. At most one member of
// count.least may be a free one, since two of them may have one name. Fails with invalid_argument
// for a pattern that is too long.
std::string pattern_of_members(const std::vector<JsonMember>& members, const std::string& free,
                               Times count);

// Returns the pattern of `first` in this order, each of which is there if those after it are, and
// of items `more` ("": none) after all of them. It has commas and no brackets.
std::string pattern_of_items(const std::vector<std::string>& first, const std::string& more,
                             Times count);

// Fails with invalid_argument for a pattern that is longer than an automaton reads.
void check_pattern_size(const std::string& pattern);

} // namespace dllm::generate
