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
  int32_t token;     // -1 for remove
  int64_t count = 1; // of insertions that are left, those for which this one stands
};

// Which token of a gap, a run of columns that are all left to insert, comes first: any, all of them alike; the middle one,
// the left one of two; or the left one. A gap of m columns gets its first token at m times the rate of a column, and what is
// left on both sides of that token are gaps of their own. So the number of columns that are there has the same distribution
// in every order, and the order `any` is that of columns that are independent of each other.
enum class InsertOrder { any, middle, left };
// times: of every column a uniform number, which becomes the kappa from which on the column is that of `to`. With the order
// any, and in columns of other edits, it is that kappa already.
void order_inserts(const Alignment& aligned, InsertOrder order, std::span<float> times);
// What is left to do from `now` (with blanks, as long as `to`) to `to`, by column; of a gap all insertions (any), or the
// first one with the number of all.
std::vector<Edit> edits_between(std::span<const int32_t> now, std::span<const int32_t> to,
                                InsertOrder order = InsertOrder::any);

} // namespace dllm::noise
