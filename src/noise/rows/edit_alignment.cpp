#include "noise/rows/edit_alignment.h"

#include <algorithm>
#include <cmath>

namespace dllm::noise {
namespace {

enum class Move : uint8_t { pair, remove, insert };

// Returns the column of a gap [first, end) that is inserted first.
size_t first_of(size_t first, size_t end, InsertOrder order) {
  return order == InsertOrder::middle ? first + (end - first - 1) / 2 : first;
}

// Returns the end of the gap that begins at `first`.
size_t gap_end(size_t first, std::span<const int32_t> now, std::span<const int32_t> to) {
  while (first < now.size() && now[first] == kBlank && to[first] != kBlank) ++first;
  return first;
}

// `absent` is the part of kappa in which no column of the gap is inserted, 1 at first. With u
// uniform, the least of m uniform numbers is 1 - u^(1 / m).
void order_gap(size_t first, size_t end, InsertOrder order, double absent, std::span<float> times) {
  while (first < end) {
    const size_t own = first_of(first, end, order);
    const double rest = 1.0 - static_cast<double>(times[own]);
    absent *= std::pow(rest, 1.0 / static_cast<double>(end - first));
    times[own] = static_cast<float>(1.0 - absent);
    order_gap(first, own, order, absent, times);
    first = own + 1;
  }
}

} // namespace

Alignment align(std::span<const int32_t> from, std::span<const int32_t> to, EditCosts costs) {
  const size_t rows = from.size(), columns = to.size(), width = columns + 1;
  std::vector<Move> moves((rows + 1) * width, Move::pair);
  std::vector<int64_t> above(width), cost(width); // of two neighbouring rows of the table
  for (size_t j = 0; j <= columns; ++j) {
    above[j] = static_cast<int64_t>(j) * costs.blank;
    moves[j] = Move::insert;
  }
  for (size_t i = 1; i <= rows; ++i) {
    cost[0] = static_cast<int64_t>(i) * costs.blank;
    moves[i * width] = Move::remove;
    for (size_t j = 1; j <= columns; ++j) {
      const int64_t pair = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : costs.substitute),
                    remove = above[j] + costs.blank, insert = cost[j - 1] + costs.blank;
      cost[j] = std::min({pair, remove, insert});
      moves[i * width + j] = cost[j] == pair     ? Move::pair
                             : cost[j] == remove ? Move::remove
                                                 : Move::insert;
    }
    std::swap(above, cost);
  }
  Alignment made;
  for (size_t i = rows, j = columns; i > 0 || j > 0;) {
    const Move move = moves[i * width + j];
    made.from.push_back(move == Move::insert ? kBlank : from[--i]);
    made.to.push_back(move == Move::remove ? kBlank : to[--j]);
  }
  std::ranges::reverse(made.from);
  std::ranges::reverse(made.to);
  return made;
}

void order_inserts(const Alignment& aligned, InsertOrder order, std::span<float> times) {
  if (order == InsertOrder::any) return;
  for (size_t column = 0; column < aligned.to.size();) {
    const size_t end = gap_end(column, aligned.from, aligned.to);
    order_gap(column, end, order, 1.0, times);
    column = std::max(end, column + 1);
  }
}

std::vector<Edit> edits_between(std::span<const int32_t> now, std::span<const int32_t> to,
                                InsertOrder order) {
  std::vector<Edit> edits;
  int64_t tokens = 0; // of `now` before the column
  for (size_t column = 0; column < now.size(); ++column) {
    if (now[column] == kBlank && to[column] != kBlank) {
      const size_t end = order == InsertOrder::any ? column + 1 : gap_end(column, now, to);
      edits.push_back({Edit::Kind::insert, std::max<int64_t>(tokens - 1, 0),
                       to[first_of(column, end, order)], static_cast<int64_t>(end - column)});
      column = end - 1;
      continue;
    }
    if (now[column] != kBlank && to[column] == kBlank)
      edits.push_back({Edit::Kind::remove, tokens, -1});
    else if (now[column] != to[column])
      edits.push_back({Edit::Kind::substitute, tokens, to[column]});
    tokens += now[column] != kBlank ? 1 : 0;
  }
  return edits;
}

} // namespace dllm::noise
