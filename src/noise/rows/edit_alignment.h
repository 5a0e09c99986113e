#pragma once
// Finds the insertions, deletions and substitutions that turn one row of tokens into another (edit
// flows, Havasi et al. 2025).

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::noise {

inline constexpr int32_t kBlank = -1; // a column without a token

// Two rows with blanks, of equal length. A column is a pair of equal tokens, a substitution, a
// deletion (`to` is blank) or an insertion (`from` is blank).
struct Alignment {
  std::vector<int32_t> from, to;
};
// The cost of a column of an alignment. A pair of equal tokens costs 0.
struct EditCosts {
  int64_t substitute = 1;
  int64_t blank = 1; // cost of a deletion or an insertion
};
// Returns an alignment of least cost (Needleman and Wunsch 1970). Ties are broken from the end of
// the rows: a pair of tokens first, then a deletion, then an insertion.
Alignment align(std::span<const int32_t> from, std::span<const int32_t> to, EditCosts costs = {});

// One edit of a row without blanks. An insertion goes to the right of `position`, a token of the
// row.
struct Edit {
  enum class Kind { substitute, remove, insert } kind;
  int64_t position;
  int32_t token; // -1 for remove
  // Insertions that are left in the gap; this edit represents all of them.
  int64_t count = 1;
};

// The token of a gap that is inserted first. A gap is a run of columns that are all still to
// insert. any: each column with equal probability. middle: the middle one, of two the left one.
// left: the left one.
// A gap of m columns gets its first token at m times the rate of a column. The columns on both
// sides of that token become gaps of their own. So the number of inserted columns has the same
// distribution in every order. With `any` the columns are independent of each other.
enum class InsertOrder { any, middle, left };
// Turns uniform numbers into times. `times` has one uniform number per column; the result is the
// kappa from which on the column equals `to`. With order `any`, and in columns of other edits, the
// uniform number is that kappa and does not change.
void order_inserts(const Alignment& aligned, InsertOrder order, std::span<float> times);
// Returns the remaining edits from `now` to `to`, by column. `now` has blanks and the length of
// `to`. With order `any` the result has all insertions of a gap; otherwise it has the first one,
// with the number of all.
std::vector<Edit> edits_between(std::span<const int32_t> now, std::span<const int32_t> to,
                                InsertOrder order = InsertOrder::any);

} // namespace dllm::noise
