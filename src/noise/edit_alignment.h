#pragma once
// How one row of tokens becomes another by insertions, deletions and substitutions (edit flows, Havasi et al. 2025).

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::noise {

inline constexpr int32_t kBlank = -1; // no token in this column

// Two rows with blanks, of equal length: column by column the same token, a substitution, a deletion (to is blank) or an
// insertion (from is blank).
struct Alignment {
  std::vector<int32_t> from, to;
};
// What a column of an alignment costs that is no pair of equal tokens.
struct EditCosts {
  int64_t substitute = 1;
  int64_t blank = 1; // a deletion or an insertion
};
// Of least cost (Needleman and Wunsch 1970). Of equal ones, seen from the end: a pair of tokens first, then a deletion, then
// an insertion.
Alignment align(std::span<const int32_t> from, std::span<const int32_t> to, EditCosts costs = {});

// One edit of a row without blanks. Insertions go to the right of `position`, a token of the row.
struct Edit {
  enum class Kind { substitute, remove, insert } kind;
  int64_t position;
  int32_t token; // -1 for remove
};
// What is left to do from `now` (with blanks, as long as `to`) to `to`, by column.
std::vector<Edit> edits_between(std::span<const int32_t> now, std::span<const int32_t> to);

} // namespace dllm::noise
